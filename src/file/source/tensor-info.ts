/** The facts of an open file and its tensors, as data. */

import type { Dtype } from '../../header/dtype.js';
import type { FileContents } from '../../header/file-contents.js';
import type { Header } from '../../header/header.js';
import { utf8Text } from '../../header/json/utf8.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import { mapYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';

/** The facts of one tensor, without its bytes. */
export interface TensorInfo {
  /** Dtype, as safetensors spells it. */
  readonly dtype: Dtype;
  /** Dimensions in elements, outermost first; empty for a scalar. */
  readonly shape: readonly number[];
  /**
   * Offset of the first byte and of the byte after the last, from the end of the header. In files of torch and NumPy,
   * from the start of the file, of the bytes that the tensor is made from; their length may differ when they are
   * compressed, strided or shared with other tensors.
   */
  readonly dataOffsets: readonly [begin: number, end: number];
  /**
   * Of a weight that `dequantize` shows, and of a stored tensor of GGUF blocks, whose dtype is U8: how it is stored.
   * Else undefined.
   */
  readonly quantization?: Quantization | undefined;
}

/** How a quantized weight is stored. */
export interface Quantization {
  /**
   * The scheme: `fp8`, `mxfp8`, `int8`, `int8-convrot`, `convrot_w4a4`, `asym_w4a8_int8`, `awq_w4a16`,
   * `pack-quantized`, `nvfp4`, `mxfp4`, `bitsandbytes-nf4`, `bitsandbytes-fp4`, `bitsandbytes-int8`, `gptq`, `awq`,
   * `mlx-affine`, `mlx-mxfp4`, `mlx-nvfp4`, `mlx-mxfp8`, or `gguf-` with the block type, such as `gguf-q4_k`.
   */
  readonly scheme: string;
  /** Bits of a code. */
  readonly bits: number;
  /**
   * Rows and columns that share a scale; a single number where blocks run over rows. Null with one scale in all.
   */
  readonly block: readonly number[] | null;
  /** Names of the stored tensors by what they are: `weight`, `scale`, `zeroPoint` … */
  readonly storedAs: Readonly<Record<string, string>>;
  /** Length of these tensors in bytes. */
  readonly byteLength: number;
}

/** What the contents of a view know besides. */
export interface ViewInfo {
  /** The file of an entry, as `TensorEntry.file`. */
  fileOf(entry: number): string;
  /** How the weight of an entry is stored. */
  quantizationOf(entry: number): Quantization | undefined;
  /** The entry as the view lists it; frozen. */
  listed(entry: number): TensorEntry;
}

/** The contents of a file, or of a view. */
export type ListedContents = FileContents & Partial<ViewInfo>;

/** Returns the info of one entry; a new frozen object. */
export function tensorInfo(contents: ListedContents, entry: number): TensorInfo {
  const quantization = contents.quantizationOf?.(entry);
  return Object.freeze({
    dtype: contents.dtype(entry),
    shape: contents.shape(entry),
    dataOffsets: Object.freeze([contents.begin(entry), contents.end(entry)] as const),
    ...(quantization === undefined ? {} : { quantization }),
  });
}

/** A small file next to the weights, such as `config.json`: the result of `sibling`. */
export interface SiblingFile {
  /** Path or address of the file. */
  readonly path: string;
  /** All bytes of a file of up to 10 MB, of a `tokenizer.json` up to 64 MiB; the first ones of a longer one. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Length of the whole file: more than that of `bytes` for a longer one. */
  readonly byteLength: number;
}

/** A tensor in the list of `tensors()`. */
export interface TensorEntry extends TensorInfo {
  /** Its name, in the file and for `getTensor`. */
  readonly name: string;
  /** Name of its file: as `shards` has it, or the last part of the path; empty for parsed bytes. */
  readonly file: string;
  /** Length of its bytes. */
  readonly byteLength: number;
}

/** Lists of all entries of a file that callers retain: `headers` and `tensors` share these objects, up to 100,000. */
const lists = new WeakMap<ListedContents, WeakRef<readonly TensorEntry[]>>();

/**
 * Returns the facts of all entries of a file; frozen objects.
 *
 * @param file the name of the file
 */
export function* allEntries(contents: ListedContents, file: string): Work<readonly TensorEntry[]> {
  const known = lists.get(contents)?.deref();
  if (known !== undefined && known[0]?.file === file) return known;
  const found = Object.freeze(yield* tensorEntries(contents, file, Array(contents.size).keys()));
  if (contents.listed === undefined) lists.set(contents, new WeakRef(found));
  return found;
}

/**
 * Returns the facts of some entries of a file; frozen objects.
 *
 * @param file the name of the file
 */
export function* tensorEntries(
  contents: ListedContents,
  file: string,
  entries: Iterable<number>,
): Work<TensorEntry[]> {
  return yield* mapYielding(entries, (entry) => {
    const listed = contents.listed?.(entry);
    if (listed !== undefined) return listed;
    const name = contents.name(entry);
    const place = contents.fileOf?.(entry) ?? file;
    const quantization = contents.quantizationOf?.(entry);
    const dtype = contents.dtype(entry);
    const shape = contents.shape(entry);
    const dataOffsets = Object.freeze([contents.begin(entry), contents.end(entry)] as const);
    const byteLength = tensorByteLength({ dtype, shape });
    // Spreading would take several times as long, and there may be a hundred thousand entries.
    return Object.freeze(
      quantization === undefined
        ? { name, file: place, dtype, shape, dataOffsets, byteLength }
        : { name, file: place, dtype, shape, dataOffsets, quantization, byteLength },
    );
  });
}

/** The header of a file, in the list of a checkpoint's `headers()`. */
export interface ShardHeader {
  /** Name of the file, as `shards` has it. */
  readonly file: string;
  /** The JSON as it stands in the file, with the spaces at its end. */
  readonly text: string;
  /** Where the tensor data begins in the file, in bytes: `dataOffsets` count from there. */
  readonly dataStart: number;
  /** The `__metadata__` of this file; null without metadata. Don't modify it. */
  readonly metadata: ReadonlyMap<string, string> | null;
  /** All tensors of the file, whatever the index specifies, in the order of their bytes. */
  readonly tensors: readonly TensorEntry[];
}

/**
 * Returns a header as data; a new frozen object, whose tensors `tensors()` may share.
 *
 * @param file the name of the file
 */
export function* shardHeader(header: Header, file: string): Work<ShardHeader> {
  const text = yield* utf8Text(header.json);
  const { dataStart, metadata } = header;
  const tensors = yield* allEntries(header, file);
  return Object.freeze({ file, text, dataStart, metadata, tensors });
}
