/**
 * Arithmetic of codes and scales, in place: each step is rounded to float32. A product of two float32 is exact in the
 * doubles of JavaScript, so storing it rounds once.
 */

import type { Dtype } from '../../header/dtype.js';
import { nativeKernels, toFloat32 } from '../../tensor/float32/kernels.js';

/** Maps a value to its quantization group. */
export interface GroupPart {
  /** Columns of the values. */
  readonly columns: number;
  /** The first row, counted from the first row of its block: the first block may be entered in its middle. */
  readonly firstRow: number;
  readonly blockRows: number;
  readonly blockColumns: number;
  /** Columns of the grid. */
  readonly gridColumns: number;
}

/**
 * Multiplies values by their scales. `scales` begins with the row of the grid that has the first value. Eight values a
 * step take two thirds of the time: engines don't unroll loops.
 */
export function multiply(values: Float32Array, part: GroupPart, scales: Float32Array): void {
  const { columns, firstRow, blockRows, blockColumns, gridColumns } = part;
  let [begin, row] = [0, firstRow];
  for (; begin < values.length; begin += columns, row++) {
    const first = Math.floor(row / blockRows) * gridColumns;
    for (let column = 0, at = first; column < columns; column += blockColumns, at++) {
      const scale = scales[at] as number;
      const end = begin + Math.min(column + blockColumns, columns);
      let i = begin + column;
      for (; i + 8 <= end; i += 8) {
        values[i] = (values[i] as number) * scale;
        values[i + 1] = (values[i + 1] as number) * scale;
        values[i + 2] = (values[i + 2] as number) * scale;
        values[i + 3] = (values[i + 3] as number) * scale;
        values[i + 4] = (values[i + 4] as number) * scale;
        values[i + 5] = (values[i + 5] as number) * scale;
        values[i + 6] = (values[i + 6] as number) * scale;
        values[i + 7] = (values[i + 7] as number) * scale;
      }
      for (; i < end; i++) values[i] = (values[i] as number) * scale;
    }
  }
}

/** Decodes whole rows of codes, then multiplies them as {@link multiply} does. */
export function decodeAndMultiply(
  dtype: Dtype,
  bytes: Uint8Array,
  values: Float32Array,
  part: GroupPart,
  scales: Float32Array,
): void {
  const kernels = nativeKernels();
  if (kernels !== undefined && part.columns > 0) {
    kernels.dequantizeRows({ ...part, dtype, bytes, output: values, scales });
    return;
  }
  toFloat32(dtype, bytes, values);
  multiply(values, part, scales);
}

/** Subtracts a zero point of each block, then multiplies: `(code - zero) * scale`. The difference is exact. */
export function subtractAndMultiply(
  values: Float32Array,
  part: GroupPart,
  scales: Float32Array,
  zeros: Float32Array,
): void {
  const { columns, firstRow, blockRows, blockColumns, gridColumns } = part;
  let [begin, row] = [0, firstRow];
  for (; begin < values.length; begin += columns, row++) {
    const first = Math.floor(row / blockRows) * gridColumns;
    for (let column = 0, at = first; column < columns; column += blockColumns, at++) {
      const scale = scales[at] as number;
      const zero = zeros[at] as number;
      const end = begin + Math.min(column + blockColumns, columns);
      for (let i = begin + column; i < end; i++) values[i] = ((values[i] as number) - zero) * scale;
    }
  }
}

/** Multiplies, then adds a bias of each block, rounding both times. */
export function multiplyAndAdd(
  values: Float32Array,
  part: GroupPart,
  scales: Float32Array,
  biases: Float32Array,
): void {
  const { columns, firstRow, blockRows, blockColumns, gridColumns } = part;
  let [begin, row] = [0, firstRow];
  for (; begin < values.length; begin += columns, row++) {
    const first = Math.floor(row / blockRows) * gridColumns;
    for (let column = 0, at = first; column < columns; column += blockColumns, at++) {
      const scale = scales[at] as number;
      const bias = biases[at] as number;
      const end = begin + Math.min(column + blockColumns, columns);
      for (let i = begin + column; i < end; i++) {
        values[i] = Math.fround((values[i] as number) * scale) + bias;
      }
    }
  }
}

/** `(code - zero) * scale`, where `groups` has the column of the grid for every column. Blocks have one row. */
export function subtractAndMultiplyByGroups(
  values: Float32Array,
  { columns, gridColumns }: GroupPart,
  groups: Int32Array,
  scales: Float32Array,
  zeros: Float32Array,
): void {
  for (let begin = 0, first = 0; begin < values.length; begin += columns, first += gridColumns) {
    for (let column = 0; column < columns; column++) {
      const at = first + (groups[column] as number);
      values[begin + column] =
        ((values[begin + column] as number) - (zeros[at] as number)) * (scales[at] as number);
    }
  }
}

/** Multiplies all values by one number. */
export function multiplyAll(values: Float32Array, factor: number): void {
  for (let i = 0; i < values.length; i++) values[i] = (values[i] as number) * factor;
}

/** Multiplies the values of each row by one factor per column. */
export function multiplyColumns(values: Float32Array, factors: Float32Array): void {
  for (let begin = 0; begin < values.length; begin += factors.length) {
    for (let column = 0; column < factors.length; column++) {
      values[begin + column] = (values[begin + column] as number) * (factors[column] as number);
    }
  }
}
