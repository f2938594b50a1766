/** Values that a pickle has numbered, to name them again. */

import { COST } from './memory-costs.js';
import type { PickleValue } from './values.js';

/** Python numbers what it memoizes from 0 on. Other numbers cost more, and no array is as long as they say. */
export class PickleMemo {
  readonly #values: PickleValue[] = [];
  /** Values whose number was not the next one. */
  readonly #sparse = new Map<number, PickleValue>();

  /** How many there are: the number that MEMOIZE gives. */
  get size(): number {
    return this.#values.length + this.#sparse.size;
  }

  /** How many bytes it takes to keep one more value under this number. */
  costOf(index: number): number {
    if (index < this.#values.length) return 0;
    return this.#isNext(index) ? COST.item : COST.sparseItem;
  }

  /** Keeps a value, in place of one that had its number. */
  set(index: number, value: PickleValue): void {
    if (index < this.#values.length) this.#values[index] = value;
    else if (this.#isNext(index)) this.#values.push(value);
    else this.#sparse.set(index, value);
  }

  /** The value of a number; undefined when there is none. */
  get(index: number): PickleValue | undefined {
    return index < this.#values.length ? this.#values[index] : this.#sparse.get(index);
  }

  #isNext(index: number): boolean {
    return index === this.#values.length && this.#sparse.size === 0;
  }
}
