/** Keeps the largest elements of a task vector: an exact cut by histograms of bit patterns, without sorting. */

import { type ElementSurvey, type Selection, selectLargest } from '../../elements.js';

/** Bit patterns by their upper 16 bits; without the sign these are half as many. */
const UPPER_COUNT = 2 ** 15;
const LOWER_COUNT = 2 ** 16;
const MAGNITUDE_BITS = 0x7fffffff;

/** Kernels count neighbours separately. */
const UPPER_LANES = 4;

/** Passes over a task vector. */
export interface VectorSurvey {
  /** What the pass that has begun counts, for kernels. */
  readonly pass: Omit<ElementSurvey, 'inputs'>;
  begin(): void;
  /** Counts the elements from `first` on. */
  count(deltas: Float32Array, first: number): void;
  end(): void;
}

/** Drops elements of a task vector. */
export interface Sparsifier {
  /** The passes that are left before it knows what it keeps. */
  readonly search: VectorSurvey | null;
  /** What it keeps, for kernels; undefined if only TypeScript has it. */
  readonly selection: Selection | undefined;
  /** Sets elements to 0 that are not kept. */
  apply(deltas: Float64Array, first: number): void;
}

/**
 * Keeps a given number of elements, those of largest magnitude as float32. Of equal ones at the cut it keeps the first.
 * Takes two passes; three where not all of the equal ones are kept.
 */
export class LargestElements implements Sparsifier, VectorSurvey {
  /** How many elements of those that were counted last are kept. */
  #left: number;
  #kind: 'upper' | 'lower' | 'equal' = 'upper';
  #isDone = false;
  readonly #kept: number;
  /** Upper bits of the cut, then the bit pattern of the smallest magnitude that is kept. */
  #cut = 0;
  /** Counts by thread. Float64: a tensor may have more than 2^32 elements. */
  readonly #counts = new Map<number, Float64Array>();
  /** How many equal ones are left to keep, and the position of the last one. */
  #equal = new Float64Array(2);
  /** Position of the last element that is kept of those at the cut. */
  #last = Number.POSITIVE_INFINITY;

  constructor(kept: number) {
    this.#kept = kept;
    this.#left = kept;
  }

  get search(): VectorSurvey | null {
    return this.#isDone ? null : this;
  }

  get pass(): Omit<ElementSurvey, 'inputs'> {
    const rule = Float64Array.of(this.#cut);
    if (this.#kind !== 'equal') {
      return { kind: this.#kind, rule, resultsOf: (_, thread) => this.#countsOf(thread) };
    }
    const results = this.#equal;
    return { kind: 'equal', rule, resultsOf: () => results, isOver: () => results[0] === 0 };
  }

  get selection(): Selection {
    return selectLargest(this.#cut, this.#last);
  }

  begin(): void {
    if (this.#kind === 'upper') this.#left = this.#kept;
    this.#counts.clear();
    this.#equal = Float64Array.of(this.#left, Number.POSITIVE_INFINITY);
  }

  #countsOf(thread: number): Float64Array {
    const length = this.#kind === 'upper' ? UPPER_LANES * UPPER_COUNT : LOWER_COUNT;
    const counts = this.#counts.get(thread) ?? new Float64Array(length);
    this.#counts.set(thread, counts);
    return counts;
  }

  count(deltas: Float32Array, first: number): void {
    const words = new Uint32Array(deltas.buffer, deltas.byteOffset, deltas.length);
    if (this.#kind === 'equal') {
      this.#countEqual(words, first);
      return;
    }
    const counts = this.#countsOf(0);
    if (this.#kind === 'upper') {
      for (let i = 0; i < words.length; i++) {
        const upper = ((words[i] as number) & MAGNITUDE_BITS) >>> 16;
        counts[upper] = (counts[upper] as number) + 1;
      }
      return;
    }
    const upper = this.#cut;
    for (let i = 0; i < words.length; i++) {
      const word = (words[i] as number) & MAGNITUDE_BITS;
      if (word >>> 16 !== upper) continue;
      const lower = word & 0xffff;
      counts[lower] = (counts[lower] as number) + 1;
    }
  }

  #countEqual(words: Uint32Array, first: number): void {
    const cut = this.#cut;
    let [left, last] = this.#equal as unknown as [number, number];
    for (let i = 0; i < words.length && left > 0; i++) {
      if (((words[i] as number) & MAGNITUDE_BITS) === cut && --left === 0) last = first + i;
    }
    this.#equal.set([left, last]);
  }

  end(): void {
    if (this.#kind === 'equal') {
      this.#last = this.#equal[1] as number;
      this.#isDone = true;
      return;
    }
    const length = this.#kind === 'upper' ? UPPER_COUNT : LOWER_COUNT;
    const counts = new Float64Array(length);
    for (const ofThread of this.#counts.values()) {
      for (let at = 0; at < ofThread.length; at++) {
        counts[at % length] = (counts[at % length] as number) + (ofThread[at] as number);
      }
    }
    this.#counts.clear();
    let at = length - 1;
    while (at > 0 && (counts[at] as number) < this.#left) this.#left -= counts[at--] as number;
    if (this.#kind === 'upper') {
      this.#cut = at;
      this.#kind = 'lower';
      return;
    }
    this.#cut = this.#cut * LOWER_COUNT + at;
    this.#kind = 'equal';
    this.#isDone = this.#left === counts[at];
  }

  apply(deltas: Float64Array, first: number): void {
    const magnitudes = new Uint32Array(new Float32Array(deltas).buffer);
    const words = new Int32Array(deltas.buffer, deltas.byteOffset, 2 * deltas.length);
    const [cut, last] = [this.#cut, this.#last - first];
    for (let i = 0; i < magnitudes.length; i++) {
      const magnitude = (magnitudes[i] as number) & MAGNITUDE_BITS;
      // All bits, or none below the cut: a branch would often be predicted wrongly.
      const kept = ~((magnitude - cut) >> 31);
      words[2 * i] = (words[2 * i] as number) & kept;
      words[2 * i + 1] = (words[2 * i + 1] as number) & kept;
    }
    for (let i = Math.max(0, last + 1); i < magnitudes.length; i++) {
      if (((magnitudes[i] as number) & MAGNITUDE_BITS) === cut) deltas[i] = 0;
    }
  }
}
