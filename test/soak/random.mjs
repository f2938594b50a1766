/** Random choices that a seed repeats, for one lane of the soak. */
export class Random {
  #state;

  constructor(seed) {
    this.#state = seed >>> 0;
  }

  /** From 0 up to but without 1 (mulberry32). */
  unit() {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 up to but without `limit`. */
  below(limit) {
    return Math.floor(this.unit() * limit);
  }

  chance(share) {
    return this.unit() < share;
  }

  from(...choices) {
    return choices[this.below(choices.length)];
  }
}
