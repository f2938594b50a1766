/** Task vectors, of which elements are dropped: TIES and DARE. */

import type { Survey } from '../../survey.js';
import { subtractFirst } from './combination.js';
import type { Draw, InputRows, Kernel, KernelInputs } from './kernel.js';
import { LargestElements, rescaleFactor, type Sparsifier } from './magnitudes.js';

/** Smaller sums of weights don't divide. */
const MIN_DIVISOR = 1e-8;

/** Which elements are kept, and how they are added up. */
export interface TaskVectorRules {
  readonly by: 'magnitude' | 'chance';
  /** Whether only values of the sign that has the larger sum are added. */
  readonly isVoted: boolean;
}

/** Merges the base, which is the first input, with the differences of the others from it. */
export function taskVectors(inputs: KernelInputs, { by, isVoted }: TaskVectorRules): Kernel {
  const { settings, elementCount, parameters } = inputs;
  const [isRescaled, isNormalized] = [settings['rescale'] !== 0, settings['normalize'] !== 0];
  const sparsifiers = parameters.slice(1).map(({ density = 1 }, i): Sparsifier | null => {
    if (density >= 1) return null;
    if (by === 'chance') return new DrawnElements(inputs.draw(i + 1, density), isRescaled);
    return new LargestElements(Math.max(1, Math.floor(density * elementCount)), isRescaled);
  });
  const weights = parameters.slice(1).map(({ weight = 0 }) => weight);
  const lambda = settings['lambda'] as number;
  const survey = new SparsifierSurvey(sparsifiers);
  return {
    survey,
    combine(rows, first, output) {
      const [base, ...deltas] = rows as [Float64Array, ...Float64Array[]];
      subtractFirst(rows);
      for (const [i, values] of deltas.entries()) sparsifiers[i]?.apply(values, first);
      const factors = weights.map((weight, i) => weight * (sparsifiers[i]?.factor ?? 1));
      if (isVoted) addVoted(deltas, { factors, weights, isNormalized }, output);
      else addAll(deltas, { factors, weights, isNormalized }, output);
      for (let i = 0; i < output.length; i++) {
        output[i] = (base[i] as number) + lambda * (output[i] as number);
      }
    },
  };
}

interface SumRules {
  /** Weights, times what kept elements are multiplied by. */
  readonly factors: readonly number[];
  readonly weights: readonly number[];
  readonly isNormalized: boolean;
}

export function sumOf(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

/** A sum of weights, unless it is too small to divide by. */
export function divisorOf(sum: number): number {
  return Math.abs(sum) < MIN_DIVISOR ? 1 : sum;
}

function addAll(
  deltas: InputRows,
  { factors, weights, isNormalized }: SumRules,
  output: Float64Array,
): void {
  const divisor = isNormalized ? divisorOf(sumOf(weights)) : 1;
  output.fill(0);
  for (const [m, values] of deltas.entries()) {
    const factor = (factors[m] as number) / divisor;
    for (let i = 0; i < output.length; i++) {
      output[i] = (output[i] as number) + factor * (values[i] as number);
    }
  }
}

function addVoted(
  deltas: InputRows,
  { factors, weights, isNormalized }: SumRules,
  output: Float64Array,
): void {
  const { length } = output;
  // Sums of positive and of negative values, and of their weights: branches on random signs take most of the time.
  const [positive, negative] = [new Float64Array(length), new Float64Array(length)];
  const votes = new Float64Array(length);
  const ofWeights = isNormalized ? length : 0;
  const [ofPositive, ofNegative] = [new Float64Array(ofWeights), new Float64Array(ofWeights)];
  for (const [m, values] of deltas.entries()) {
    const [factor, weight] = [factors[m] as number, weights[m] as number];
    for (let i = 0; i < length; i++) {
      const value = factor * (values[i] as number);
      const magnitude = Math.abs(value);
      votes[i] = (votes[i] as number) + value;
      positive[i] = (positive[i] as number) + (value + magnitude) / 2;
      negative[i] = (negative[i] as number) + (value - magnitude) / 2;
    }
    for (let i = 0; i < ofWeights; i++) {
      const value = factor * (values[i] as number);
      if (value > 0) ofPositive[i] = (ofPositive[i] as number) + weight;
      else if (value < 0) ofNegative[i] = (ofNegative[i] as number) + weight;
    }
  }
  for (let i = 0; i < length; i++) {
    // A sum of 0 counts as positive. NaN is in both sums.
    const isPositive = (votes[i] as number) >= 0;
    const sum = (isPositive ? positive[i] : negative[i]) as number;
    const divisor = isNormalized ? ((isPositive ? ofPositive[i] : ofNegative[i]) as number) : 1;
    output[i] = sum / divisorOf(divisor);
  }
}

/** The passes of all sparsifiers of a tensor. */
class SparsifierSurvey implements Survey<InputRows> {
  readonly #sparsifiers: readonly (Sparsifier | null)[];
  #deltas = new Float32Array(0);

  constructor(sparsifiers: readonly (Sparsifier | null)[]) {
    this.#sparsifiers = sparsifiers;
  }

  get isDone(): boolean {
    return this.#sparsifiers.every((one) => one?.isDone !== false);
  }

  begin(): void {
    for (const one of this.#left()) one.begin();
  }

  count([base, ...others]: InputRows, first: number): void {
    for (const [i, values] of others.entries()) {
      const one = this.#sparsifiers[i];
      if (one == null || one.isDone) continue;
      if (this.#deltas.length < values.length) this.#deltas = new Float32Array(values.length);
      const deltas = this.#deltas.subarray(0, values.length);
      for (let k = 0; k < deltas.length; k++) {
        deltas[k] = (values[k] as number) - ((base as Float64Array)[k] as number);
      }
      one.count(deltas, first);
    }
  }

  end(): void {
    for (const one of this.#left()) one.end();
  }

  #left(): Sparsifier[] {
    return this.#sparsifiers.filter((one) => one !== null && !one.isDone) as Sparsifier[];
  }
}

/** Keeps elements by chance. */
class DrawnElements implements Sparsifier {
  readonly #draw: Draw;
  #isDone: boolean;
  #all = 0;
  #kept = 0;
  #factor = 1;

  constructor(draw: Draw, isRescaled: boolean) {
    this.#draw = draw;
    this.#isDone = !isRescaled;
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  get factor(): number {
    return this.#factor;
  }

  begin(): void {
    this.#all = 0;
    this.#kept = 0;
  }

  count(deltas: Float32Array, first: number): void {
    const kept = new Uint8Array(deltas.length);
    this.#draw.fill(first, kept);
    for (let i = 0; i < deltas.length; i++) {
      const magnitude = Math.abs(deltas[i] as number);
      this.#all += magnitude;
      if (kept[i] === 1) this.#kept += magnitude;
    }
  }

  end(): void {
    this.#factor = rescaleFactor(this.#all, this.#kept);
    this.#isDone = true;
  }

  apply(deltas: Float64Array, first: number): void {
    const kept = new Uint8Array(deltas.length);
    this.#draw.fill(first, kept);
    for (let i = 0; i < deltas.length; i++) if (kept[i] === 0) deltas[i] = 0;
  }
}
