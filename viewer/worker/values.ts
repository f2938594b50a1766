/** The values of a tensor of a source, whatever it is stored as. */

import type { Dtype, LogicalTensor, Tensor, TensorEntry } from 'safetensors-mmap';
import { valueTexts } from 'safetensors-mmap/inspect';
import { type Axis, type PartIndex, partIndices } from '../selection.js';
import { bitTexts, packedCodes } from './bits.js';
import type { Source } from './sources.js';

/** How a tensor is stored, and where. */
export interface TensorFacts {
  readonly name: string;
  /** The dtype of its elements; of quantized ones the scheme. */
  readonly kind: string;
  readonly shape: readonly number[];
  readonly elements: number;
  readonly byteLength: number;
  readonly offset: number;
  readonly file: string;
  readonly scheme: string | null;
  readonly bits: number;
  readonly block: readonly number[] | null;
  /** The stored tensors of a quantized one, by what they are. */
  readonly storedAs: readonly (readonly [part: string, name: string])[];
}

/** Part of a tensor as texts, row by row. */
export interface Cells {
  readonly texts: readonly string[];
}

/** A tensor whose parts can be read, as the library's functions for values take it. */
export type Readable = LogicalTensor | Stored;

/** A tensor as it is stored. */
interface Stored {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  slice(...index: PartIndex[]): Promise<Tensor>;
}

/** Elements of fewer bits than a byte are read as values: their slices need not begin with a byte. */
function isPacked(dtype: string): boolean {
  return dtype === 'F4' || dtype.startsWith('F6_');
}

/** The stored tensor of a name. */
function storedOf({ stored, checkpoint }: Source, name: string): TensorEntry {
  const entry = stored.get(name);
  if (entry === undefined)
    throw new RangeError(`There is no tensor ${JSON.stringify(name)} in ${checkpoint.path}.`);
  return entry;
}

/** A tensor to read: dequantized, else as it is stored. */
export function readable(source: Source, name: string, signal: AbortSignal): Readable {
  const { checkpoint, model } = source;
  const logical = model.has(name) ? model.getTensor(name) : null;
  if (logical !== null && logical.info.scheme !== null) return logical;
  const { dtype, shape } = storedOf(source, name);
  if (logical !== null && isPacked(dtype)) return logical;
  const slice: Stored['slice'] = (...index) => checkpoint.getSlice(name, ...index, { signal });
  return { dtype, shape, slice };
}

/** Tells how a tensor is stored. An address may name a scale or a zero point, which the list has not. */
export function tensorFacts(source: Source, name: string): TensorFacts {
  const { model, starts } = source;
  const info = model.has(name) ? model.info(name) : null;
  const storedAs = Object.entries(info?.storedAs ?? {});
  const entry = storedOf(source, storedAs[0]?.[1] ?? name);
  const { shape, byteLength, scheme, bits, block } = info ?? {
    ...entry,
    scheme: null,
    bits: 0,
    block: null,
  };
  return {
    name,
    kind: scheme ?? entry.dtype,
    ...{ shape, byteLength, scheme, bits, block, file: entry.file },
    elements: shape.reduce((product, size) => product * size, 1),
    offset: (starts.get(entry.file) ?? 0) + entry.dataOffsets[0],
    storedAs: scheme === null ? [] : storedAs,
  };
}

/** Reads a part of a tensor. */
export async function part(
  source: Source,
  name: string,
  axes: readonly Axis[],
  signal: AbortSignal,
): Promise<Tensor> {
  const tensor = readable(source, name, signal);
  const indices = partIndices(axes);
  return 'dtype' in tensor
    ? await tensor.slice(...indices)
    : await tensor.slice(...indices, { signal });
}

/** Every element of a part by itself, as numpy prints one. */
function singleTexts(tensor: Tensor): string[] {
  const texts: string[] = [];
  const flat = (rest: Tensor): void => {
    if (rest.shape.length === 0) texts.push(...(valueTexts([rest])[0] as string[]));
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
  const { dtype } = storedOf(source, name);
  return { texts: isPacked(dtype) ? packedCodes(dtype, tensor.toFloat32()) : bitTexts(tensor) };
}

/** Most elements that are copied as text: more is no text for people. */
export const MAX_COPIED = 250_000;

/** A part of a tensor as a table: CSV, or columns of one width as numpy prints an array. */
export async function tableText(
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
  const texts = form === 'csv' ? singleTexts(tensor) : (valueTexts([tensor])[0] as string[]);
  const columns = tensor.shape.at(-1) ?? 1;
  const lines = Array.from({ length: columns === 0 ? 0 : count / columns }, (_, row) =>
    texts.slice(row * columns, (row + 1) * columns).join(form === 'csv' ? ',' : ' '),
  );
  return `${lines.join('\n')}\n`;
}
