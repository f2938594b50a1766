/** The steps of merged weights: what is added to rows, what rows are multiplied by, and what replaces them. */

import type { Tensor } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
import { type MergeDtype, readValues, roundValues } from '../values.js';
import type { Step } from './change.js';
import type { Matrix } from './factors.js';
import type { Factors } from './product.js';

/** Adds a product of factors. */
export function addFactors(factors: Factors): Step {
  return { factors, apply: (values, first) => factors.addTo(values, first) };
}

/** Adds products that differ for every block of rows, such as those of the experts of a layer. */
export function addExperts(factors: Factors, rowsOfExpert: number): Step {
  const { columns } = factors;
  return {
    apply(values, first) {
      for (let row = first, at = 0; at < values.length; ) {
        const expert = Math.floor(row / rowsOfExpert);
        const count = Math.min((expert + 1) * rowsOfExpert - row, (values.length - at) / columns);
        factors.addTo(values.subarray(at, at + count * columns), row, expert);
        row += count;
        at += count * columns;
      }
    },
  };
}

/** Adds what a step adds, rounded to the dtype of the weight first: as PEFT does for embeddings and parameters. */
export function addRounded(step: Step, dtype: MergeDtype): Step {
  return {
    apply(values, first) {
      const added = new Float64Array(values.length);
      step.apply(added, first);
      roundValues(added, dtype);
      for (let i = 0; i < values.length; i++) {
        values[i] = (values[i] as number) + (added[i] as number);
      }
    },
  };
}

/** Values of products that are computed at once: those of both stay in the second-level cache. */
const PRODUCT_LENGTH = 2 ** 13;

/** LoHa: adds the elementwise product of two products. */
export function addHadamard(one: Factors, other: Factors): Step {
  const { columns } = one;
  const length = columns * Math.max(1, Math.floor(PRODUCT_LENGTH / Math.max(columns, 1)));
  const [lefts, rights] = [new Float64Array(length), new Float64Array(length)];
  return {
    apply(values, first) {
      for (const { begin, end } of cut(0, values.length, length)) {
        const row = first + begin / columns;
        const left = lefts.subarray(0, end - begin).fill(0);
        const right = rights.subarray(0, end - begin).fill(0);
        one.addTo(left, row);
        other.addTo(right, row);
        for (let i = 0, at = begin; at < end; i++, at++) {
          values[at] = (values[at] as number) + (left[i] as number) * (right[i] as number);
        }
      }
    },
  };
}

/** LoKr: adds a Kronecker product of two matrices, times `scale`. */
export function addKronecker(left: Matrix, right: Matrix, scale: number): Step {
  const width = right.columns;
  return {
    apply(values, first) {
      for (let at = 0, row = first; at < values.length; row++) {
        const from = Math.floor(row / right.rows) * left.columns;
        const other = (row % right.rows) * width;
        for (let i = 0; i < left.columns; i++) {
          const factor = scale * (left.values[from + i] as number);
          for (let k = 0; k < width; k++, at++) {
            values[at] = (values[at] as number) + factor * (right.values[other + k] as number);
          }
        }
      }
    },
  };
}

/**
 * LoKr of PEFT for Conv1d, whose second matrix is a whole `[c, d, kernel]`: adds the Kronecker product of `[1, a, b]`
 * and that, whose elements take the shape of the weight in their order.
 */
export function addReshapedKronecker(
  left: Matrix,
  right: Matrix,
  kernel: number,
  scale: number,
): Step {
  const inner = right.columns / kernel;
  const [height, width] = [left.rows * inner, left.columns * kernel];
  const columns = left.columns * right.columns;
  return {
    apply(values, first) {
      for (let i = 0; i < values.length; i++) {
        const at = first * columns + i;
        const [row, column] = [Math.floor(at / width), at % width];
        const [item, rowOfItem] = [Math.floor(row / height), row % height];
        const ofLeft = Math.floor(rowOfItem / inner) * left.columns + Math.floor(column / kernel);
        const ofRight = (item * inner + (rowOfItem % inner)) * kernel + (column % kernel);
        const product = (left.values[ofLeft] as number) * (right.values[ofRight] as number);
        values[i] = (values[i] as number) + scale * product;
      }
    },
  };
}

/** Adds a whole tensor, times `scale`. */
export function addTensor(tensor: Tensor, columns: number, scale: number): Step {
  return {
    apply(values, first) {
      const added = new Float64Array(values.length);
      readValues(tensor, first * columns, added);
      for (let i = 0; i < values.length; i++) {
        values[i] = (values[i] as number) + scale * (added[i] as number);
      }
    },
  };
}

/** Replaces the whole weight. */
export function replaceAll(tensor: Tensor, columns: number): Step {
  return { apply: (values, first) => readValues(tensor, first * columns, values) };
}

/** Replaces single rows: the row at `positions[i]` by row i of the tensor. */
export function replaceRows(tensor: Tensor, columns: number, positions: readonly number[]): Step {
  return {
    apply(values, first) {
      const last = first + values.length / columns;
      for (const [i, position] of positions.entries()) {
        if (position < first || position >= last) continue;
        const at = (position - first) * columns;
        readValues(tensor, i * columns, values.subarray(at, at + columns));
      }
    },
  };
}

/** Multiplies every row by its factor. */
export function multiplyRows(factors: Float64Array, columns: number): Step {
  return {
    apply(values, first) {
      for (let at = 0, row = first; at < values.length; row++) {
        const factor = factors[row] as number;
        for (let k = 0; k < columns; k++, at++) values[at] = (values[at] as number) * factor;
      }
    },
  };
}

/** Multiplies columns by their factors, each for as many neighbours as there are more columns than factors. */
export function multiplyColumns(factors: Float64Array, columns: number): Step {
  const width = columns / factors.length;
  return {
    apply(values) {
      for (let at = 0; at < values.length; ) {
        for (let i = 0; i < factors.length; i++) {
          const factor = factors[i] as number;
          for (let k = 0; k < width; k++, at++) values[at] = (values[at] as number) * factor;
        }
      }
    },
  };
}
