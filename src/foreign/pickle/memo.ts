/** Values that a pickle has numbered, to name them again. */

import { COST } from './memory-costs.js';

/** Python numbers what it memoizes from 0 on. Other numbers cost more, and no array is as long as they say. */
export class PickleMemo<Value> {
  readonly #values: Value[] = [];
  /** Values whose number was not the next one. */
  readonly #sparse = new Map<number, Value>();

  /** How many there are: the number that MEMOIZE gives. */
  get size(): number {
    return this.#values.length + this.#sparse.size;
  }

  /** Keeps a value, in place of one that had its number. Returns how many bytes that takes. */
  set(index: number, value: Value): number {
    const { length } = this.#values;
    if (index === length && this.#sparse.size === 0) {
      this.#values.push(value);
      return COST.memoItem;
    }
    if (index < length) {
      this.#values[index] = value;
      return 0;
    }
    this.#sparse.set(index, value);
    return COST.sparseItem;
  }

  /** The value of a number; undefined when there is none. */
  get(index: number): Value | undefined {
    return index < this.#values.length ? this.#values[index] : this.#sparse.get(index);
  }
}
