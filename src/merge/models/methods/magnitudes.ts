/** Keeps the largest elements of a task vector: an exact cut by histograms of bit patterns, without sorting. */

/** Bit patterns by their upper 16 bits; without the sign these are half as many. */
const UPPER_COUNT = 2 ** 15;
const LOWER_COUNT = 2 ** 16;
const MAGNITUDE_BITS = 0x7fffffff;

/** Shorter vectors are not rescaled. */
const MIN_SUM = 1e-7;

/** Drops elements of a task vector. */
export interface Sparsifier {
  /** Whether it knows all that it needs. */
  readonly isDone: boolean;
  /** What kept elements are multiplied by. */
  readonly factor: number;
  begin(): void;
  /** Counts the elements from `first` on, in one pass or several. */
  count(deltas: Float32Array, first: number): void;
  end(): void;
  /** Sets elements to 0 that are not kept. */
  apply(deltas: Float64Array, first: number): void;
}

/** Factor by which kept elements reach the sum of all magnitudes. */
export function rescaleFactor(all: number, kept: number): number {
  return all < MIN_SUM || kept < MIN_SUM ? 1 : all / kept;
}

/**
 * Keeps a given number of elements, those of largest magnitude as float32. Of equal ones at the cut it keeps the first.
 * Takes two passes; three where not all of the equal ones are kept.
 */
export class LargestElements implements Sparsifier {
  readonly #kept: number;
  readonly #rescale: boolean;
  /** Float64: a tensor may have more than 2^32 elements. */
  #counts: Float64Array | null = null;
  /** Sums of magnitudes by their upper bits. */
  #sums: Float64Array | null = null;
  #pass: 'upper' | 'lower' | 'equal' | 'done' = 'upper';
  /** Upper bits of the cut. */
  #upper = 0;
  /** Bit pattern of the smallest magnitude that is kept. */
  #cut = 0;
  /** How many elements of those that were counted last are kept. */
  #left: number;
  /** How many equal elements to keep were not counted yet. */
  #uncounted = 0;
  /** Position of the last element that is kept of those at the cut. */
  #last = Number.POSITIVE_INFINITY;
  #factor = 1;

  constructor(kept: number, rescale: boolean) {
    this.#kept = kept;
    this.#left = kept;
    this.#rescale = rescale;
  }

  get isDone(): boolean {
    return this.#pass === 'done';
  }

  get factor(): number {
    return this.#factor;
  }

  begin(): void {
    if (this.#pass === 'upper') {
      this.#left = this.#kept;
      this.#counts = new Float64Array(UPPER_COUNT);
      this.#sums = this.#rescale ? new Float64Array(UPPER_COUNT) : null;
    } else if (this.#pass === 'lower') {
      this.#counts = new Float64Array(LOWER_COUNT);
    } else {
      this.#uncounted = this.#left;
    }
  }

  count(deltas: Float32Array, first: number): void {
    const words = new Uint32Array(deltas.buffer, deltas.byteOffset, deltas.length);
    if (this.#pass === 'equal') {
      this.#countEqual(words, first);
      return;
    }
    const counts = this.#counts as Float64Array;
    if (this.#pass === 'upper') {
      const sums = this.#sums;
      for (let i = 0; i < words.length; i++) {
        const upper = ((words[i] as number) & MAGNITUDE_BITS) >>> 16;
        counts[upper] = (counts[upper] as number) + 1;
        if (sums !== null) sums[upper] = (sums[upper] as number) + Math.abs(deltas[i] as number);
      }
      return;
    }
    const upper = this.#upper;
    for (let i = 0; i < words.length; i++) {
      const word = (words[i] as number) & MAGNITUDE_BITS;
      if (word >>> 16 !== upper) continue;
      const lower = word & 0xffff;
      counts[lower] = (counts[lower] as number) + 1;
    }
  }

  #countEqual(words: Uint32Array, first: number): void {
    const cut = this.#cut;
    for (let i = 0; i < words.length && this.#uncounted > 0; i++) {
      if (((words[i] as number) & MAGNITUDE_BITS) !== cut) continue;
      if (--this.#uncounted === 0) this.#last = first + i;
    }
  }

  end(): void {
    if (this.#pass === 'equal') {
      this.#pass = 'done';
      return;
    }
    const counts = this.#counts as Float64Array;
    let at = counts.length - 1;
    while (at > 0 && (counts[at] as number) < this.#left) this.#left -= counts[at--] as number;
    if (this.#pass === 'upper') {
      this.#upper = at;
      this.#pass = 'lower';
      return;
    }
    this.#cut = this.#upper * LOWER_COUNT + at;
    this.#factor = this.#rescale ? this.#factorFor(counts, at) : 1;
    this.#pass = this.#left === counts[at] ? 'done' : 'equal';
    this.#counts = null;
    this.#sums = null;
  }

  /** The factor for all elements above the cut, and as many at it as are left to keep. */
  #factorFor(counts: Float64Array, cut: number): number {
    const sums = this.#sums as Float64Array;
    const word = new Uint32Array(1);
    const value = new Float32Array(word.buffer);
    let kept = 0;
    for (let upper = this.#upper + 1; upper < UPPER_COUNT; upper++) kept += sums[upper] as number;
    for (let lower = cut; lower < LOWER_COUNT; lower++) {
      word[0] = this.#upper * LOWER_COUNT + lower;
      const count = lower === cut ? this.#left : (counts[lower] as number);
      if (count > 0) kept += count * (value[0] as number);
    }
    return rescaleFactor(
      sums.reduce((sum, one) => sum + one, 0),
      kept,
    );
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
