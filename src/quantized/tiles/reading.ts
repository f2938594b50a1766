/**
 * How values are read: generators that ask for parts of stored tensors, whoever has them, and fill rows tile by tile.
 * What they ask for comes at once from a local file, or by requests.
 */

import type { SliceIndices } from '../../tensor/slice.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { StoredTensor } from '../plan/logical-plan.js';

/** A part of a stored tensor; all of it without an index. */
export interface Want {
  readonly name: string;
  readonly index: SliceIndices | null;
}

/** Work that asks for tensors: each `yield` gets those that it asks for. Without any it offers a turn to others. */
export type Reading<Result> = Generator<readonly Want[], Result, readonly Tensor[]>;

/** Takes the rows [first, last), which `fill` writes. */
export type Emit = (first: number, last: number, fill: (into: Float32Array) => void) => void;

/** Gives the rows of one logical tensor. */
export interface Decoder {
  /** Emits the rows [first, last) in order, in tiles. */
  decode(first: number, last: number, emit: Emit): Reading<void>;
}

/** Values of a tile: 1 MiB, which stays in the processor's cache from one step to the next. */
const TILE_LENGTH = 2 ** 18;

/** Most bytes of codes that are asked for at once: two pieces of a remote read. */
const WINDOW_BYTE_LENGTH = 2 ** 24;

/** How many rows of so many values make a tile; at least one. */
export function tileRows(columns: number): number {
  return Math.max(1, Math.floor(TILE_LENGTH / Math.max(columns, 1)));
}

/** How many rows of so many bytes are asked for at once: whole tiles. */
export function windowRows(rowByteLength: number, tile: number): number {
  const rows = Math.floor(WINDOW_BYTE_LENGTH / Math.max(rowByteLength, 1));
  return Math.max(1, Math.floor(rows / tile)) * tile;
}

/** Asks for one tensor, all of it. */
export function* whole({ name }: StoredTensor): Reading<Tensor> {
  const [tensor] = yield [{ name, index: null }];
  return tensor as Tensor;
}

/**
 * The index of rows [first, last) of one matrix of a tensor: `depth` dimensions are rows, the last of them within the
 * matrix. A tensor with no such dimension is one row.
 */
export function rowIndex(
  shape: readonly number[],
  depth: number,
  matrix: number,
  first: number,
  last: number,
): SliceIndices | null {
  if (depth <= 0) return null;
  const index: (number | [number, number])[] = [[first, last]];
  let rest = matrix;
  for (let dimension = depth - 2; dimension >= 0; dimension--) {
    const length = shape[dimension] as number;
    index.unshift(rest % length);
    rest = Math.floor(rest / length);
  }
  return index;
}
