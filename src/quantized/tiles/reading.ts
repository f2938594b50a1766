/** How values are read: work that reads parts of stored tensors, local or remote, and fills rows tile by tile. */

import type { SliceIndices } from '../../tensor/slice.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { Work } from '../../work/work.js';

/** A part of a stored tensor; all of it without an index. */
export interface TensorPart {
  readonly name: string;
  readonly index: SliceIndices | null;
}

/** Reads stored tensors. */
export interface TensorReader {
  /** Reads parts of tensors, in this order. */
  read(parts: readonly TensorPart[]): Work<readonly Tensor[]>;
}

/** Takes the rows [first, last), which `fill` writes. */
export type Emit = (first: number, last: number, fill: (into: Float32Array) => void) => void;

/** Gives the rows of one logical tensor. */
export interface Decoder {
  /** Emits the rows [first, last) in order, in tiles. */
  decode(first: number, last: number, emit: Emit): Work<void>;
}

/** Values of a tile: 1 MiB, which stays in the processor's cache from one step to the next. */
const TILE_LENGTH = 2 ** 18;

/** Maximum of bytes of codes that are read at once: two pieces of a remote read. */
const WINDOW_BYTE_LENGTH = 2 ** 24;

/** How many rows of so many values make a tile; at least one. */
export function tileRows(columns: number): number {
  return Math.max(1, Math.floor(TILE_LENGTH / Math.max(columns, 1)));
}

/** How many rows of so many bytes are read at once: whole tiles. */
export function windowRows(rowByteLength: number, tile: number): number {
  const rows = Math.floor(WINDOW_BYTE_LENGTH / Math.max(rowByteLength, 1));
  return Math.max(1, Math.floor(rows / tile)) * tile;
}

/** Reads a part of one tensor, by default all of it. */
export function* readPart(
  reader: TensorReader,
  name: string,
  index: SliceIndices | null = null,
): Work<Tensor> {
  const [tensor] = yield* reader.read([{ name, index }]);
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
