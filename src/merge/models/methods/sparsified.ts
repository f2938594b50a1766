/** A task vector of which elements are dropped, and what the others are multiplied by. */

import { type ElementSurvey, SELECT_ALL, type Selection } from '../../elements.js';
import type { Draw } from './kernel.js';
import { LANES, PieceSums, sumOfLanes } from './lanes.js';
import type { Sparsifier, VectorSurvey } from './magnitudes.js';

/** Shorter vectors are not rescaled. */
const MIN_SUM = 1e-7;

/** The elements of a task vector that are kept; with `isRescaled`, multiplied so that they reach the sum of all. */
export class SparsifiedVector {
  readonly #sparsifier: Sparsifier | null;
  /** Sums of all magnitudes, and of those that are kept. */
  readonly #sums = new PieceSums(2);
  #factor: number | undefined;

  /** Without a sparsifier all elements are kept. */
  constructor(sparsifier: Sparsifier | null, isRescaled: boolean) {
    this.#sparsifier = sparsifier;
    if (sparsifier === null || !isRescaled) this.#factor = 1;
  }

  /** Whether it knows all that it needs. */
  get isDone(): boolean {
    return this.#factor !== undefined && this.#search === null;
  }

  get #search(): VectorSurvey | null {
    return this.#sparsifier?.search ?? null;
  }

  /** What kept elements are multiplied by. */
  get factor(): number {
    return this.#factor ?? 1;
  }

  /** What is kept, for kernels; undefined if only TypeScript has it. */
  get selection(): Selection | undefined {
    return this.#sparsifier === null ? SELECT_ALL : this.#sparsifier.selection;
  }

  /** What the pass that has begun counts, for kernels. */
  get pass(): Omit<ElementSurvey, 'inputs'> {
    const rule = Float64Array.from(this.selection ?? SELECT_ALL);
    return this.#search?.pass ?? { kind: 'sums', rule, resultsOf: (piece) => this.#sums.of(piece) };
  }

  begin(): void {
    this.#search?.begin();
    this.#sums.clear();
  }

  /** Counts the elements from `first` on. */
  count(deltas: Float32Array, first: number): void {
    if (this.#search !== null) {
      this.#search.count(deltas, first);
      return;
    }
    const kept = new Float64Array(deltas);
    this.apply(kept, first);
    this.#sums.addTo(first, kept.length, (sums, begin, end) => {
      for (let i = begin; i < end; i++) {
        const lane = (first + i) % LANES;
        sums[lane] = (sums[lane] as number) + Math.abs(deltas[i] as number);
        sums[LANES + lane] = (sums[LANES + lane] as number) + Math.abs(kept[i] as number);
      }
    });
  }

  end(): void {
    if (this.#search !== null) {
      this.#search.end();
      return;
    }
    const sums = this.#sums.end();
    const [all, kept] = [sums.subarray(0, LANES), sums.subarray(LANES)].map(sumOfLanes) as [
      number,
      number,
    ];
    this.#factor = all < MIN_SUM || kept < MIN_SUM ? 1 : all / kept;
  }

  /** Sets elements to 0 that are not kept. */
  apply(deltas: Float64Array, first: number): void {
    this.#sparsifier?.apply(deltas, first);
  }
}

/** Keeps elements by chance. */
export class DrawnElements implements Sparsifier {
  readonly search = null;
  readonly selection: Selection | undefined;
  readonly #draw: Draw;

  constructor(draw: Draw) {
    this.#draw = draw;
    this.selection = draw.selection;
  }

  apply(deltas: Float64Array, first: number): void {
    const kept = new Uint8Array(deltas.length);
    this.#draw.fill(first, kept);
    for (let i = 0; i < deltas.length; i++) if (kept[i] === 0) deltas[i] = 0;
  }
}
