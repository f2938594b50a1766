/** DoRA: weights get trained norms, of their rows or of their columns. */

import type { Survey } from '../survey.js';
import type { Step } from './change.js';

/** The norms that a weight gets. */
export interface Magnitude {
  /** One value for each row, or for each group of columns. */
  readonly values: () => Float64Array;
  /** Whether norms are those of columns. */
  readonly byColumn: boolean;
  readonly columns: number;
  /** Groups of columns with a common norm, such as those of one input channel of a convolution. */
  readonly groups: number;
  /** Added to every norm: LyCORIS's epsilon of float32; 0 in PEFT. */
  readonly epsilon: number;
  /** LyCORIS's strength: how far norms are changed. 1 for all of it. */
  readonly strength: number;
}

/** Sets norms. Those of columns depend on all rows: they are computed once and retained. */
export class MagnitudeStep implements Step {
  readonly survey: Survey<Float64Array> | undefined;
  readonly #magnitude: Magnitude;
  readonly #trained: Float64Array;

  constructor(magnitude: Magnitude, norms: ColumnNorms) {
    this.#magnitude = magnitude;
    this.#trained = magnitude.values();
    this.survey = magnitude.byColumn ? norms : undefined;
  }

  apply(values: Float64Array, first: number): void {
    if (this.survey instanceof ColumnNorms) this.#scaleColumns(values, this.survey.norms);
    else this.#scaleRows(values, first);
  }

  #scaleRows(values: Float64Array, first: number): void {
    const { columns } = this.#magnitude;
    for (let at = 0, row = first; at < values.length; at += columns, row++) {
      let sum = 0;
      for (let k = at; k < at + columns; k++) sum += (values[k] as number) ** 2;
      const factor = this.#factor(row, Math.sqrt(sum));
      for (let k = at; k < at + columns; k++) values[k] = (values[k] as number) * factor;
    }
  }

  #scaleColumns(values: Float64Array, norms: Float64Array): void {
    const factors = norms.map((norm, i) => this.#factor(i, norm));
    const width = this.#magnitude.columns / factors.length;
    for (let at = 0; at < values.length; ) {
      for (const factor of factors) {
        for (let k = 0; k < width; k++, at++) values[at] = (values[at] as number) * factor;
      }
    }
  }

  #factor(index: number, norm: number): number {
    const { epsilon, strength } = this.#magnitude;
    const factor = (this.#trained[index] as number) / (norm + epsilon);
    return strength === 1 ? factor : strength * (factor - 1) + 1;
  }
}

/** Norms of groups of columns over all rows. */
export class ColumnNorms implements Survey<Float64Array> {
  #sums: Float64Array;
  #norms: Float64Array | null = null;
  readonly #columns: number;

  constructor(groups: number, columns: number) {
    this.#sums = new Float64Array(groups);
    this.#columns = columns;
  }

  get isDone(): boolean {
    return this.#norms !== null;
  }

  get norms(): Float64Array {
    if (this.#norms === null) throw new Error('norms are used before the first pass');
    return this.#norms;
  }

  begin(): void {
    this.#sums.fill(0);
  }

  count(values: Float64Array): void {
    const sums = this.#sums;
    const width = this.#columns / sums.length;
    for (let at = 0; at < values.length; ) {
      for (let i = 0; i < sums.length; i++) {
        let sum = sums[i] as number;
        for (let k = 0; k < width; k++, at++) sum += (values[at] as number) ** 2;
        sums[i] = sum;
      }
    }
  }

  end(): void {
    this.#norms = this.#sums.map(Math.sqrt);
  }
}
