/** Opens GGUF files. */

import { basename } from 'node:path';
import { type OptionNames, requireInteger, requireOptions } from '../../errors/arguments.js';
import { type ErrorContext, FormatError, type SafetensorsError } from '../../errors/errors.js';
import type { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { STORAGE_OPTIONS, type StorageOptions } from '../../platform/storage/open.js';
import type { BlockType } from '../../quantized/blocks/types.js';
import type { StorageBytes } from '../../tensor/storage/computed.js';
import type { Storage } from '../../tensor/storage/storage.js';
import { immediate, runSync } from '../../work/work.js';
import { fileKindOf, otherKind } from '../file-kind.js';
import { foreignCheckpoint } from '../foreign-checkpoint.js';
import { ForeignShard } from '../foreign-shard.js';
import { openForeign } from '../open-file.js';
import { tensorData } from '../tensor-data.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import type { Change } from '../tensors/strided-fill.js';
import { cStrides } from '../tensors/tensor-layout.js';
import { changeOf } from '../value-changes.js';
import { blockQuantization } from './header/contents.js';
import { type GgufHeader, type GgufTensor, readGgufHeader } from './header/read-header.js';
import { requireTensorCount } from './header/split-names.js';
import { splitPaths } from './split-files.js';

/** Options of GGUF files. */
export interface OpenGgufOptions extends StorageOptions {
  /** Largest header in bytes; 100,000,000 by default. The vocabulary of a model is part of it. */
  readonly maxHeaderByteLength?: number | undefined;
}

/** Names of the options. */
export const OPEN_GGUF_OPTIONS: OptionNames<OpenGgufOptions> = {
  ...STORAGE_OPTIONS,
  maxHeaderByteLength: true,
};

/** An open file. */
interface GgufFile {
  readonly header: GgufHeader;
  readonly shard: ForeignShard;
  readonly problems: readonly SafetensorsError[];
}

/**
 * Opens a GGUF file, or all files of a model that was split, given one of them: reads and checks the headers, maps the
 * files, reads none of the data.
 *
 * Unquantized tensors are views of the mapped file; those of big-endian files are swapped on use. A tensor of
 * blocks, such as Q4_K, is listed as its bytes: U8, with the bytes of a row as the last dimension, and `quantization`
 * in its info. `dequantize` shows it as numbers. `metadata` has the scalar values as text, `extra()` all of them.
 *
 * @throws FormatError `SAFETENSORS_INVALID_GGUF`, `SAFETENSORS_INCOMPLETE_FILE`, `SAFETENSORS_FOREIGN_FORMAT`,
 *   `SAFETENSORS_HEADER_TOO_LARGE`, `SAFETENSORS_FOREIGN_LIMIT`, `SAFETENSORS_UNSUPPORTED_TENSOR`
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS`, `SAFETENSORS_NOT_A_REGULAR_FILE`,
 *   `SAFETENSORS_MAPPING_UNAVAILABLE`
 * @throws Error Node's own `ENOENT`, `EACCES`, `ENOMEM` and the like
 */
export function openGguf(path: PathLike, options: OpenGgufOptions = {}): Checkpoint {
  requireOptions(options, OPEN_GGUF_OPTIONS);
  const { maxHeaderByteLength } = options;
  if (maxHeaderByteLength !== undefined) {
    requireInteger('maxHeaderByteLength', maxHeaderByteLength, 1, Number.MAX_SAFE_INTEGER);
  }
  const opened = [openFile(path, options)];
  try {
    const [first] = opened as [GgufFile];
    const { label } = locate(path);
    const paths = splitPaths(label, first.header.values);
    const files = paths.map((one) => {
      if (paths.length === 1 || basename(one) === basename(label)) return first;
      const file = openFile(one, options);
      opened.push(file);
      return file;
    });
    return checkpointOf(files, paths);
  } catch (error) {
    for (const { shard } of opened) shard.close();
    throw error;
  }
}

function openFile(path: PathLike, options: OpenGgufOptions): GgufFile {
  const { maxHeaderByteLength, ...storageOptions } = options;
  return openForeign(path, storageOptions, (start, file, context) => {
    if (fileKindOf(start) !== 'gguf') throw otherKind(start, 'a GGUF file', context);
    const { byteLength } = file;
    const read = (begin: number, end: number) => immediate(() => file.read(begin, end));
    const header = runSync(readGgufHeader({ byteLength, read }, { maxHeaderByteLength }, context));
    const problems = header.tensors.flatMap((tensor) => problemOf(tensor, header, context) ?? []);
    const unread = new Set(problems.map(({ tensor }) => tensor));
    return (storage) => {
      const tensors = header.tensors
        .filter(({ name }) => !unread.has(name))
        .map((tensor) => tensorOf(tensor, header.isBigEndian, storage, context));
      const shard = new ForeignShard(storage, tensors, undefined, header.values.texts());
      return { header, shard, problems };
    };
  });
}

/** The checkpoint of all files, in order. Closes those without tensors, as the first one often is. */
function checkpointOf(files: readonly GgufFile[], paths: readonly string[]): Checkpoint {
  const [path] = paths as [string];
  const [first] = files as [GgufFile];
  const { values } = first.header;
  const problems = files.flatMap((file) => file.problems);
  const info = { format: 'gguf', extra: () => values.decode(), problems } as const;
  const count = files.reduce((sum, { shard }) => sum + shard.contents.size, problems.length);
  if (files.length > 1) requireTensorCount(values, count, path);
  return foreignCheckpoint(
    files.map(({ shard }, i) => ({ shard, path: paths[i] as string })),
    info,
  );
}

/** Returns the error for a tensor whose bytes cannot be read; undefined for all others. */
function problemOf(
  { name, type }: GgufTensor,
  { isBigEndian }: GgufHeader,
  { path }: ErrorContext,
): FormatError | undefined {
  if (!isBigEndian || type.block === null || type.block.words !== null) return undefined;
  const message = `${type.name} in big-endian files is not supported: convert the file to little-endian`;
  return new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, { path, tensor: name });
}

/** The tensor of a file in its storage. Bytes of big-endian files are swapped on use. */
function tensorOf(
  tensor: GgufTensor,
  isBigEndian: boolean,
  storage: Storage,
  context: ErrorContext,
): ForeignTensor {
  const { name, type, shape, begin, byteLength } = tensor;
  const held: StorageBytes = { storage, begin, byteLength };
  const quantization = blockQuantization(tensor);
  return {
    ...{ name, dtype: type.dtype, shape, storage: held },
    ...{ storageByteLength: byteLength, byteOffset: 0 },
    data: isBigEndian ? swappedData(held, tensor, context) : held,
    ...(quantization === undefined ? {} : { quantization }),
  };
}

function swappedData(
  held: StorageBytes,
  { name, type, shape, byteLength }: GgufTensor,
  context: ErrorContext,
): StorageBytes {
  const change =
    type.block === null
      ? (changeOf(type.dtype, { isBigEndian: true }, { ...context, tensor: name }) as
          | Change
          | undefined)
      : wordSwap(type.block);
  const items = type.block === null ? shape : [byteLength / type.byteLength];
  const itemByteLength = type.byteLength;
  const strides = cStrides(items);
  return tensorData(held, { itemByteLength, shape: items, strides, offset: 0, byteLength }, change);
}

/** Swaps the bytes of all numbers in blocks. */
function wordSwap({ byteLength, words }: BlockType): Change | undefined {
  if (words === null || words.length === 0) return undefined;
  return (items) => {
    for (let block = 0; block < items.length; block += byteLength) {
      for (const word of words) {
        const at = block + word;
        const first = items[at] as number;
        items[at] = items[at + 1] as number;
        items[at + 1] = first;
      }
    }
  };
}
