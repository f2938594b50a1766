/** Factors of adapters as float64, from the tensors of their files. */

import type { Tensor } from '../../tensor/tensor.js';
import { readValues } from '../values.js';
import { Factors } from './product.js';

/** A matrix in row order. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
  readonly values: Float64Array;
}

/** Rows and columns of a tensor as a matrix: the first dimension, and all others. */
export function matrixShape([rows = 1, ...rest]: readonly number[]): [
  rows: number,
  columns: number,
] {
  return [rows, rest.reduce((product, size) => product * size, 1)];
}

/** All values of a tensor. */
export function valuesOf(tensor: Tensor): Float64Array {
  const values = new Float64Array(tensor.elementCount);
  readValues(tensor, 0, values);
  return values;
}

/** A tensor as a matrix. */
export function matrixOf(tensor: Tensor): Matrix {
  const [rows, columns] = matrixShape(tensor.shape);
  return { rows, columns, values: valuesOf(tensor) };
}

/** A matrix with rows and columns exchanged. */
export function transposed({ rows, columns, values }: Matrix): Matrix {
  const result = new Float64Array(values.length);
  for (let i = 0; i < rows; i++) {
    for (let k = 0; k < columns; k++) result[k * rows + i] = values[i * columns + k] as number;
  }
  return { rows: columns, columns: rows, values: result };
}

/** The factors of a product, times `scale`. */
export function factorsOf(left: Matrix, right: Matrix, scale: number): Factors {
  const scaled = left.values.map((value) => scale * value);
  return new Factors(scaled, right.values, left.columns, right.columns);
}

/** The product of two small matrices. */
export function productOf(left: Matrix, right: Matrix): Matrix {
  const values = new Float64Array(left.rows * right.columns);
  factorsOf(left, right, 1).addTo(values, 0);
  return { rows: left.rows, columns: right.columns, values };
}

/**
 * Multiplies a core `[i, j, k…]` with a matrix `[j, n]` over j. The result is `[i, n · k…]`: the right factor of a
 * Tucker decomposition, whose left factor is a matrix with i columns.
 */
export function tuckerRight(core: Tensor, matrix: Matrix): Matrix {
  const [rows = 1, inner = 1, ...kernel] = core.shape;
  const size = kernel.reduce((product, length) => product * length, 1);
  const values = valuesOf(core);
  const { columns } = matrix;
  const result = new Float64Array(rows * columns * size);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < inner; j++) {
      for (let n = 0; n < columns; n++) {
        const factor = matrix.values[j * columns + n] as number;
        const from = (i * inner + j) * size;
        const to = (i * columns + n) * size;
        for (let k = 0; k < size; k++) {
          result[to + k] = (result[to + k] as number) + factor * (values[from + k] as number);
        }
      }
    }
  }
  return { rows, columns: columns * size, values: result };
}
