/** Sums in lanes by position: the same in pieces of any length, and by kernels. */

import { cut } from '../../../work/byte-ranges.js';
import { PIECE_LENGTH } from '../../elements.js';

/** Number of lanes. */
export const LANES = 8;

/** Adds up lanes, in order. */
export function sumOfLanes(lanes: Float64Array): number {
  return lanes.reduce((sum, lane) => sum + lane, 0);
}

/** Sums of several numbers in lanes, for every piece of a tensor. */
export class PieceSums {
  readonly #length: number;
  #pieces: Float64Array[] = [];

  /** Adds up `count` numbers. */
  constructor(count: number) {
    this.#length = count * LANES;
  }

  /** The sums of a piece so far: the lanes of the first number, then those of the others. */
  of(piece: number): Float64Array {
    this.#pieces[piece] ??= new Float64Array(this.#length);
    return this.#pieces[piece];
  }

  /**
   * Calls `add` for the elements of each piece.
   *
   * @param first position of the first element
   * @param add adds those from `begin` to `end`, counted from the first
   */
  addTo(
    first: number,
    count: number,
    add: (sums: Float64Array, begin: number, end: number) => void,
  ): void {
    for (const { begin, end } of cut(first, first + count, PIECE_LENGTH, 0)) {
      add(this.of(Math.floor(begin / PIECE_LENGTH)), begin - first, end - first);
    }
  }

  /** Forgets all sums. */
  clear(): void {
    this.#pieces = [];
  }

  /** Adds up the pieces in order, lane by lane, and forgets them. */
  end(): Float64Array {
    const totals = new Float64Array(this.#length);
    for (const sums of this.#pieces) {
      for (let i = 0; i < totals.length; i++) {
        totals[i] = (totals[i] as number) + (sums[i] as number);
      }
    }
    this.clear();
    return totals;
  }
}
