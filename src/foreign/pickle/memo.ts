/** Values that a pickle has numbered, to name them again. */

import { COST } from './memory-costs.js';

/**
 * How many values a part of the memo has. In parts nothing is copied when the memo grows: one long array that
 * grows leaves three times as much behind as it has in it, and V8 may collect none of that in time.
 */
const PART_LENGTH = 2 ** 14;

/** Python numbers what it memoizes from 0 on. Other numbers cost more, and no array is as long as they say. */
export class PickleMemo<Value> {
  readonly #parts: Value[][] = [];
  #length = 0;
  /** Values whose number was not the next one. */
  readonly #sparse = new Map<number, Value>();

  /** How many there are: the number that MEMOIZE gives. */
  get size(): number {
    return this.#length + this.#sparse.size;
  }

  /** Keeps a value, in place of one that had its number. Returns how many bytes that takes. */
  set(index: number, value: Value): number {
    if (index < this.#length) {
      this.#partOf(index)[index % PART_LENGTH] = value;
      return 0;
    }
    if (index === this.#length && this.#sparse.size === 0) {
      if (index % PART_LENGTH === 0) this.#parts.push([]);
      this.#partOf(index).push(value);
      this.#length += 1;
      return COST.memoItem;
    }
    this.#sparse.set(index, value);
    return COST.sparseItem;
  }

  /** The value of a number; undefined when there is none. */
  get(index: number): Value | undefined {
    return index < this.#length
      ? this.#partOf(index)[index % PART_LENGTH]
      : this.#sparse.get(index);
  }

  /** The part of a number below the length. */
  #partOf(index: number): Value[] {
    return this.#parts[Math.floor(index / PART_LENGTH)] as Value[];
  }
}
