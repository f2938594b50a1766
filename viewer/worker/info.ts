/** Facts of an open source for the page: what the overview shows, and the list of tensors in columns. */

import type { RemoteCheckpoint, ShardHeader, TensorEntry } from 'safetensors-mmap';
import {
  checkModelspec,
  lackingDtypes,
  type ModelspecProblem,
  thumbnailOf,
} from 'safetensors-mmap/inspect';
import { layerPlace, partNumber, partOf } from '../poster.js';
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
export interface FileInfo {
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

export function elementsOf(shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1);
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

/** What each tensor is for, given the formatted shapes: names that differ in numbers only are for the same. */
export function partsOf(entries: readonly TensorEntry[], shapes: readonly string[]): Uint8Array {
  const parts = new Map<string, number>();
  return Uint8Array.from(entries, ({ name, shape }, at) => {
    const role = `${layerPlace(name).role} ${shapes[at]}`;
    const known = parts.get(role) ?? partNumber(partOf(name, shape));
    parts.set(role, known);
    return known;
  });
}

/** Puts tensors into columns. */
function columns(entries: readonly TensorEntry[], starts: ReadonlyMap<string, number>): TensorList {
  const [kinds, files] = [new Numbered(), new Numbered()];
  const floats = (of: (entry: TensorEntry) => number): Float64Array =>
    Float64Array.from(entries, of);
  const kind = ({ quantization, dtype }: TensorEntry) => kinds.of(quantization?.scheme ?? dtype);
  const shapes = entries.map(({ shape }) => formatShape(shape));
  return {
    names: entries.map(({ name }) => name),
    kind: Uint8Array.from(entries, kind),
    kinds: kinds.values,
    file: Uint32Array.from(entries, ({ file }) => files.of(file)),
    files: files.values,
    shapes,
    part: partsOf(entries, shapes),
    elements: floats(({ shape }) => elementsOf(shape)),
    byteLength: floats(({ quantization, byteLength }) => quantization?.byteLength ?? byteLength),
    offset: floats(({ file, dataOffsets }) => (starts.get(file) ?? 0) + dataOffsets[0]),
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
  /** Weights by the name of their codes; null for their other stored tensors. */
  const parts = new Map<string, TensorEntry | null>();
  for (const entry of shown) {
    const storedAs = entry.quantization?.storedAs;
    if (storedAs === undefined) continue;
    for (const name of Object.values(storedAs)) if (!parts.has(name)) parts.set(name, null);
    parts.set(storedAs['weight'] as string, entry);
  }
  const listed: TensorEntry[] = [];
  for (const entry of stored) {
    const weight = parts.get(entry.name);
    if (weight !== null) listed.push(weight ?? entry);
  }
  return columns(listed, starts);
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
export function metadataOf(
  { metadata }: RemoteCheckpoint,
  headers: readonly ShardHeader[],
): ReadonlyMap<string, string> {
  return new Map([...(headers[0]?.metadata ?? []), ...(metadata ?? [])]);
}

/** The files of headers, which their tensors end. */
export function filesOf(headers: readonly ShardHeader[]): FileInfo[] {
  return headers.map(({ file, dataStart, tensors }) => ({
    name: file,
    byteLength: tensors.reduce(
      (end, { dataOffsets }) => Math.max(end, dataStart + dataOffsets[1]),
      dataStart,
    ),
    tensors: tensors.length,
  }));
}

/** What is known of an opened source. */
export interface Known {
  /** The dequantized view, and the schemes of its quantized weights. */
  readonly model: RemoteCheckpoint;
  readonly schemes: ReadonlySet<string>;
  readonly headers: readonly ShardHeader[];
  readonly list: TensorList;
  /** As the Hub counts them; the logical ones of a model with quantized weights. */
  readonly parameters: number;
  /** What is wrong with its index and shards. */
  readonly problems: readonly string[];
  readonly architecture: Architecture;
  readonly sample: SampleInfo;
}

/** The schemes of quantized weights. */
export function schemesOf(shown: readonly TensorEntry[]): ReadonlySet<string> {
  const schemes = new Set<string>();
  for (const { quantization } of shown) if (quantization) schemes.add(quantization.scheme);
  return schemes;
}

/** Tells what an opened source is. */
export function overviewOf(
  checkpoint: RemoteCheckpoint,
  { model, schemes, headers, list, parameters, problems, architecture, sample }: Known,
): Overview {
  const warnings = [...model.problems.map(({ message }) => message), ...problems];
  const dtypes = new Set<string>();
  for (const { tensors } of headers) for (const { dtype } of tensors) dtypes.add(dtype);
  const files = filesOf(headers);
  const metadata = metadataOf(checkpoint, headers);
  const isSpecified = [...metadata.keys()].some((key) => key.startsWith('modelspec.'));
  return {
    path: checkpoint.path,
    ...{ files, warnings, architecture, sample, parameters },
    notes: lackingDtypes(dtypes),
    quantization: [...schemes].join(', ') || null,
    byteLength: files.reduce((sum, { byteLength }) => sum + byteLength, 0),
    tensors: list.names.length,
    storedTensors: files.reduce((sum, { tensors }) => sum + tensors, 0),
    kinds: kindCounts(list),
    metadata: [...metadata],
    modelspecProblems: isSpecified ? checkModelspec(metadata) : [],
    thumbnail: thumbnailOf(metadata.get('modelspec.thumbnail') ?? ''),
  };
}
