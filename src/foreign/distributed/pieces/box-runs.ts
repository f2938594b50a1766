/** Where the bytes of a box lie in its tensor. */

import type { Box } from './tiling.js';

/**
 * The longest parts of a box that are contiguous in the tensor. All have the same length. In the box they lie one after
 * the other; in the tensor, both in the order of their positions.
 */
export class BoxRuns {
  readonly count: number;
  /** Length of each in bytes. */
  readonly byteLength: number;
  /** Sizes of the dimensions outside of a run, outermost first, and the strides of the tensor there in bytes. */
  readonly #sizes: readonly number[];
  readonly #strides: readonly number[];
  readonly #first: number;

  /** Whether all runs begin and end at whole bytes, as runs of all dtypes but packed ones do. */
  static areBytes(box: Box, whole: readonly number[], bits: number): boolean {
    const ofBits = new BoxRuns(box, whole, 8 * bits);
    return [ofBits.byteLength, ofBits.#first, ...ofBits.#strides].every(
      (length) => length % 8 === 0,
    );
  }

  /** `bits` are those of an element. */
  constructor({ offsets, shape }: Box, whole: readonly number[], bits: number) {
    let axis = shape.length;
    let [run, stride, first] = [bits, bits, 0];
    for (let isWhole = true; axis > 0 && isWhole; ) {
      axis--;
      run *= shape[axis] as number;
      first += (offsets[axis] as number) * stride;
      stride *= whole[axis] as number;
      isWhole = shape[axis] === whole[axis];
    }
    const strides: number[] = [];
    for (let outer = axis - 1; outer >= 0; outer--) {
      strides.unshift(stride);
      first += (offsets[outer] as number) * stride;
      stride *= whole[outer] as number;
    }
    this.byteLength = run / 8;
    this.#first = first / 8;
    this.#sizes = shape.slice(0, axis);
    this.#strides = strides.map((length) => length / 8);
    this.count = this.#sizes.reduce((product, size) => product * size, 1);
  }

  /** Position of a run in the tensor, in bytes. */
  positionOf(run: number): number {
    let [rest, position] = [run, this.#first];
    for (let axis = this.#sizes.length - 1; axis >= 0; axis--) {
      const size = this.#sizes[axis] as number;
      position += (rest % size) * (this.#strides[axis] as number);
      rest = Math.floor(rest / size);
    }
    return position;
  }

  /** The first run that ends after a position of the tensor; `count` without one. */
  firstAfter(position: number): number {
    let [low, high] = [0, this.count];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      if (this.positionOf(middle) + this.byteLength <= position) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
