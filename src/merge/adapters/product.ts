/** Products of two factors: the change of every low-rank adapter. */

import { addProduct, paddedLength, type RowFactors } from '../product.js';

/** Two factors whose product is a matrix. */
export class Factors {
  readonly columns: number;
  readonly #rank: number;
  /** Rows of the rank, one for each row of the product. */
  #left: Float64Array;
  /** The rank × the product's columns, padded; several such matrices one after the other. */
  #right: Float32Array;

  /**
   * Takes the values of both.
   *
   * @param right rows of `columns` values. Where they don't fit into float32, as products of other factors, their
   *   rounding errors are factors, too
   */
  constructor(left: Float64Array, right: Float64Array, rank: number, columns: number) {
    const isExact = right.every(
      (value) => value - Math.fround(value) === 0 || !Number.isFinite(value),
    );
    const parts = isExact ? 1 : 2;
    const stride = paddedLength(columns);
    this.columns = columns;
    this.#rank = parts * rank;
    this.#right = new Float32Array((parts * right.length * stride) / Math.max(columns, 1));
    for (let from = 0, to = 0; from < right.length; from += columns, to += parts * stride) {
      for (let i = 0; i < columns; i++) {
        const value = right[from + i] as number;
        this.#right[to + i] = value;
        const error = value - Math.fround(value);
        if (!isExact && Number.isFinite(error)) this.#right[to + stride + i] = error;
      }
    }
    this.#left = isExact ? left : new Float64Array(2 * left.length);
    if (!isExact) for (const [i, value] of left.entries()) this.#left.fill(value, 2 * i, 2 * i + 2);
  }

  /** The factors of the sum of two products. */
  static sum(one: Factors, other: Factors): Factors {
    const { columns } = one;
    const [rank, added] = [one.#rank, other.#rank];
    const rows = one.#left.length / rank;
    const sum = new Factors(new Float64Array(0), new Float64Array(0), rank + added, columns);
    sum.#left = new Float64Array(rows * (rank + added));
    for (let row = 0; row < rows; row++) {
      const at = row * (rank + added);
      sum.#left.set(one.#left.subarray(row * rank, (row + 1) * rank), at);
      sum.#left.set(other.#left.subarray(row * added, (row + 1) * added), at + rank);
    }
    sum.#right = new Float32Array(one.#right.length + other.#right.length);
    sum.#right.set(one.#right);
    sum.#right.set(other.#right, one.#right.length);
    return sum;
  }

  /**
   * The factors of rows.
   *
   * @param matrix the matrix of the right factor
   */
  ofRows(first: number, count: number, matrix = 0): RowFactors {
    const rank = this.#rank;
    const length = rank * paddedLength(this.columns);
    const right = this.#right;
    return {
      left: this.#left.subarray(first * rank, (first + count) * rank),
      right:
        length === right.length ? right : right.subarray(matrix * length, (matrix + 1) * length),
    };
  }

  /** Adds rows of the product, from the row `first` on, to whole rows of sums. */
  addTo(sums: Float64Array, first: number, matrix = 0): void {
    const { columns } = this;
    const bytes = new Uint8Array(sums.buffer, sums.byteOffset, sums.byteLength);
    const { left, right } = this.ofRows(first, sums.length / columns, matrix);
    addProduct({ from: 'F64', to: 'F64', bytes, output: bytes, left, right, columns });
  }
}
