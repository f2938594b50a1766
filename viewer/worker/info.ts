/** Facts of an open source for the page: what the overview shows, and the list of tensors in columns. */

import type { RemoteCheckpoint, ShardHeader, TensorEntry } from 'safetensors-mmap';
import {
  checkModelspec,
  lackingDtypes,
  type ModelspecProblem,
  thumbnailOf,
} from 'safetensors-mmap/inspect';
import { partNumber, partOf } from '../poster.js';
import type { Architecture } from './architecture.js';

/** Tensors in columns: 100 000 objects would take the page half a second to receive. */
export interface TensorList {
  readonly names: readonly string[];
  /** Dtypes of stored tensors, schemes of quantized ones; `kind` has positions in it. */
  readonly kinds: readonly string[];
  readonly kind: Uint8Array;
  readonly shapes: readonly string[];
  readonly elements: Float64Array;
  readonly byteLength: Float64Array;
  /** Of the first byte, in its file. */
  readonly offset: Float64Array;
  readonly files: readonly string[];
  readonly file: Uint32Array;
  /** What each is for: its position in `PARTS`. */
  readonly part: Uint8Array;
}

/** Sums over the tensors of one dtype or scheme. */
export interface KindCounts {
  readonly kind: string;
  readonly tensors: number;
  readonly elements: number;
  readonly byteLength: number;
}

/** A file of a source. */
interface FileInfo {
  readonly name: string;
  readonly byteLength: number;
  readonly tensors: number;
}

/** How much is read of the tensors of a source. */
export interface SampleInfo {
  /** Bytes of all tensors, and of samples of them from files and by requests. */
  readonly all: number;
  readonly files: number;
  readonly requests: number;
}

/** What is known of a source when it has been opened. */
export interface Overview {
  readonly path: string;
  readonly files: readonly FileInfo[];
  readonly byteLength: number;
  readonly sample: SampleInfo;
  /** Listed tensors: those that make up one quantized weight count once. */
  readonly tensors: number;
  /** Tensors in the headers of all files. */
  readonly storedTensors: number;
  /** Parameters, of quantized tensors the logical ones. */
  readonly parameters: number;
  /** The schemes of quantized weights; null without such weights. */
  readonly quantization: string | null;
  /** From config.json; empty without one. */
  readonly architecture: Architecture;
  readonly kinds: readonly KindCounts[];
  readonly metadata: readonly (readonly [key: string, value: string])[];
  /** What the specification says of `modelspec.` keys; empty without such keys. */
  readonly modelspecProblems: readonly ModelspecProblem[];
  readonly thumbnail: { readonly type: string; readonly bytes: Uint8Array } | null;
  readonly warnings: readonly string[];
  /** Which programs cannot read it. */
  readonly notes: readonly string[];
}

/** `4096 × 4096`. */
export function formatShape(shape: readonly number[]): string {
  return shape.length === 0 ? 'scalar' : shape.join(' × ');
}

/** The dimensions in such a text. */
export function dimensions(text: string): number[] {
  return text === 'scalar' ? [] : text.split(' × ').map(Number);
}

function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
}

/** What the list specifies of one tensor. */
interface Row {
  readonly name: string;
  readonly kind: string;
  readonly shape: readonly number[];
  readonly byteLength: number;
  readonly offset: number;
  readonly file: string;
}

/** Gives every value a number, in the order of first use. */
class Numbered {
  readonly values: string[] = [];
  readonly #numbers = new Map<string, number>();

  of(value: string): number {
    const known = this.#numbers.get(value);
    if (known !== undefined) return known;
    this.#numbers.set(value, this.values.length);
    return this.values.push(value) - 1;
  }
}

/** Puts rows into columns. */
function columns(rows: readonly Row[]): TensorList {
  const [kinds, files] = [new Numbered(), new Numbered()];
  const floats = (of: (row: Row) => number): Float64Array => Float64Array.from(rows, of);
  const kind = Uint8Array.from(rows, (row) => kinds.of(row.kind));
  const file = Uint32Array.from(rows, (row) => files.of(row.file));
  return {
    names: rows.map(({ name }) => name),
    ...{ kinds: kinds.values, kind, files: files.values, file },
    shapes: rows.map(({ shape }) => formatShape(shape)),
    elements: floats(({ shape }) => elementsOf(shape)),
    byteLength: floats(({ byteLength }) => byteLength),
    offset: floats(({ offset }) => offset),
    part: Uint8Array.from(rows, ({ name, shape }) => partNumber(partOf(name, shape))),
  };
}

/**
 * Lists tensors in the order of their bytes: those of the dequantized view, and the stored ones that no weight consists
 * of, such as weights that cannot be dequantized.
 *
 * @param starts where the data of each file begins
 */
export function listOf(
  stored: readonly TensorEntry[],
  shown: readonly TensorEntry[],
  starts: ReadonlyMap<string, number>,
): TensorList {
  const weights = new Map<string, TensorEntry>();
  const used = new Set<string>();
  for (const entry of shown) {
    const storedAs = entry.quantization?.storedAs;
    if (storedAs === undefined) continue;
    weights.set(storedAs['weight'] as string, entry);
    for (const name of Object.values(storedAs)) used.add(name);
  }
  const listed = stored.flatMap(
    (entry) => weights.get(entry.name) ?? (used.has(entry.name) ? [] : entry),
  );
  return columns(
    listed.map(({ name, dtype, shape, byteLength, quantization, dataOffsets, file }) => ({
      ...{ name, shape, file },
      kind: quantization?.scheme ?? dtype,
      byteLength: quantization?.byteLength ?? byteLength,
      offset: (starts.get(file) ?? 0) + dataOffsets[0],
    })),
  );
}

function kindCounts({ kinds, kind, elements, byteLength }: TensorList): KindCounts[] {
  const counts = kinds.map((name) => ({ kind: name, tensors: 0, elements: 0, byteLength: 0 }));
  for (const [at, number] of kind.entries()) {
    const sums = counts[number] as (typeof counts)[number];
    sums.tensors++;
    sums.elements += elements[at] as number;
    sums.byteLength += byteLength[at] as number;
  }
  return counts.sort((a, b) => b.byteLength - a.byteLength);
}

/** The metadata of the index or the only file; without any those of the first shard. */
function metadataOf(
  { metadata }: RemoteCheckpoint,
  headers: readonly ShardHeader[],
): ReadonlyMap<string, string> {
  return new Map([...(headers[0]?.metadata ?? []), ...(metadata ?? [])]);
}

/** What is known of an opened source. */
export interface Known {
  /** The dequantized view, and its tensors. */
  readonly model: RemoteCheckpoint;
  readonly shown: readonly TensorEntry[];
  readonly headers: readonly ShardHeader[];
  readonly list: TensorList;
  /** As the Hub counts them. */
  readonly parameters: number;
  /** What is wrong with its index and shards. */
  readonly problems: readonly string[];
  readonly architecture: Architecture;
  readonly sample: SampleInfo;
}

/** Tells what an opened source is. */
export function overviewOf(
  checkpoint: RemoteCheckpoint,
  { model, shown, headers, list, parameters, problems, architecture, sample }: Known,
): Overview {
  const warnings = [...model.problems.map(({ message }) => message), ...problems];
  const dtypes = new Set(headers.flatMap(({ tensors }) => tensors.map(({ dtype }) => dtype)));
  const files = headers.map(({ file, dataStart, tensors }) => ({
    name: file,
    byteLength: tensors.reduce(
      (end, { dataOffsets }) => Math.max(end, dataStart + dataOffsets[1]),
      dataStart,
    ),
    tensors: tensors.length,
  }));
  const schemes = new Set(shown.flatMap(({ quantization }) => quantization?.scheme ?? []));
  const metadata = metadataOf(checkpoint, headers);
  const isSpecified = [...metadata.keys()].some((key) => key.startsWith('modelspec.'));
  return {
    path: checkpoint.path,
    ...{ files, warnings, architecture, sample },
    notes: lackingDtypes(dtypes),
    quantization: [...schemes].join(', ') || null,
    parameters:
      schemes.size === 0
        ? parameters
        : shown.reduce((sum, { shape }) => sum + elementsOf(shape), 0),
    byteLength: files.reduce((sum, { byteLength }) => sum + byteLength, 0),
    tensors: list.names.length,
    storedTensors: files.reduce((sum, { tensors }) => sum + tensors, 0),
    kinds: kindCounts(list),
    metadata: [...metadata],
    modelspecProblems: isSpecified ? checkModelspec(metadata) : [],
    thumbnail: thumbnailOf(metadata.get('modelspec.thumbnail') ?? ''),
  };
}
