/** The values of a tensor of a source, whatever it is stored as. */

import { DTYPES, type Quantization, type Tensor, type TensorEntry } from 'safetensors-mmap';
import { formatValues, type SliceableTensor } from 'safetensors-mmap/inspect';
import { type Axis, partIndices } from '../selection.js';
import { formatBits, packedCodes } from './bits.js';
import { isPacked, packedTensor } from './packed.js';
import type { Source } from './sources.js';

/** How a tensor is stored, and where. */
export interface NamedTensorSpec {
  readonly name: string;
  /** The dtype of its elements; of quantized ones the scheme. */
  readonly kind: string;
  readonly shape: readonly number[];
  readonly elements: number;
  readonly byteLength: number;
  readonly offset: number;
  readonly file: string;
  /** Bits of an element. */
  readonly bits: number;
  /** How a quantized weight is stored; null for other tensors. */
  readonly quantization: Quantization | null;
}

/** Part of a tensor as texts, row by row. */
export interface Cells {
  readonly texts: readonly string[];
}

/** Finds a tensor. An address may name a scale or a zero point, which the list lacks. */
function entryOf({ entries, checkpoint }: Source, name: string): TensorEntry {
  const entry = entries.get(name);
  if (entry === undefined)
    throw new RangeError(`There is no tensor ${JSON.stringify(name)} in ${checkpoint.path}.`);
  return entry;
}

/** Returns a tensor whose parts are read when they are used. */
export function readable(source: Source, name: string, signal: AbortSignal): SliceableTensor {
  const { checkpoint, model } = source;
  const entry = entryOf(source, name);
  const { dtype, shape } = entry;
  if (isPacked(dtype)) return packedTensor(checkpoint, entry, signal);
  const opened = model.has(name) ? model : checkpoint;
  return { dtype, shape, slice: (...index) => opened.getSlice(name, ...index, { signal }) };
}

/** Returns how a tensor is stored. */
export function tensorFacts(source: Source, name: string): NamedTensorSpec {
  const { dtype, shape, byteLength, file, dataOffsets, quantization } = entryOf(source, name);
  return {
    ...{ name, shape, file },
    kind: quantization?.scheme ?? dtype,
    elements: shape.reduce((product, size) => product * size, 1),
    byteLength: quantization?.byteLength ?? byteLength,
    offset: (source.starts.get(file) ?? 0) + dataOffsets[0],
    bits: DTYPES[dtype].bits,
    quantization: quantization ?? null,
  };
}

/** Reads a part of a tensor. */
export async function part(
  source: Source,
  name: string,
  axes: readonly Axis[],
  signal: AbortSignal,
): Promise<Tensor> {
  return await readable(source, name, signal).slice(...partIndices(axes));
}

/** Every element of a part by itself, as numpy prints one. */
function singleTexts(tensor: Tensor): string[] {
  const texts: string[] = [];
  const flat = (rest: Tensor): void => {
    if (rest.shape.length === 0) texts.push(...(formatValues([rest])[0] as string[]));
    else for (let i = 0; i < (rest.shape[0] as number); i++) flat(rest.slice(i));
  };
  flat(tensor);
  return texts;
}

/** A part of a tensor for a grid: values as numpy prints each, or bits of stored elements. */
export async function cells(
  source: Source,
  name: string,
  axes: readonly Axis[],
  form: 'values' | 'bits',
  signal: AbortSignal,
): Promise<Cells> {
  const tensor = await part(source, name, axes, signal);
  if (form === 'values') return { texts: singleTexts(tensor) };
  const { dtype } = entryOf(source, name);
  return { texts: isPacked(dtype) ? packedCodes(dtype, tensor.toFloat32()) : formatBits(tensor) };
}

/** Most elements that are copied as text: more is no text for people. */
const MAX_COPIED = 250_000;

/** A part of a tensor as a table: CSV, or columns of one width as numpy prints an array. */
export async function formatTable(
  source: Source,
  name: string,
  axes: readonly Axis[],
  form: 'csv' | 'text',
  signal: AbortSignal,
): Promise<string> {
  const count = axes.reduce((product, axis) => product * axis.count, 1);
  if (count > MAX_COPIED) {
    throw new RangeError(
      `These are ${count} values; at most ${MAX_COPIED} are copied. Choose fewer by a slice, such as 0:100, 0:100.`,
    );
  }
  const tensor = await part(source, name, axes, signal);
  const texts = form === 'csv' ? singleTexts(tensor) : (formatValues([tensor])[0] as string[]);
  const columns = tensor.shape.at(-1) ?? 1;
  const lines = Array.from({ length: columns === 0 ? 0 : count / columns }, (_, row) =>
    texts.slice(row * columns, (row + 1) * columns).join(form === 'csv' ? ',' : ' '),
  );
  return `${lines.join('\n')}\n`;
}
