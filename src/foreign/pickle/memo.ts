/** The memo: values that a pickle has numbered to refer to them again. */

import { COST } from './memory-costs.js';

/**
 * Values per part of the memo. Growing by parts copies nothing: a single growing array leaves garbage of three times
 * its size, which V8 may not collect in time.
 */
const PART_LENGTH = 2 ** 14;

/**
 * Python numbers what it memoizes from 0 on. Other numbers go into a Map, so a large one doesn't make a long array.
 */
export class PickleMemo<Value> {
  readonly #parts: Value[][] = [];
  #length = 0;
  /** Values with other numbers than the next one. */
  readonly #sparse = new Map<number, Value>();

  /** Count of the values: the number that MEMOIZE assigns next. */
  get size(): number {
    return this.#length + this.#sparse.size;
  }

  /** Keeps a value; replaces the previous one with that number. Returns the bytes that it costs. */
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

  /** The value of a number; undefined for an unknown number. */
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
