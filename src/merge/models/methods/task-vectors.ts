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

function divisorOf(sum: number): number {
  return Math.abs(sum) < MIN_DIVISOR ? 1 : sum;
}

function addAll(
  deltas: InputRows,
  { factors, weights, isNormalized }: SumRules,
  output: Float64Array,
): void {
  const sum = weights.reduce((sum, weight) => sum + weight, 0);
  const divisor = isNormalized ? divisorOf(sum) : 1;
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
  const votes = new Float64Array(output.length);
  for (const [m, values] of deltas.entries()) {
    const factor = factors[m] as number;
    for (let i = 0; i < votes.length; i++) {
      const value = factor * (values[i] as number);
      values[i] = value;
      votes[i] = (votes[i] as number) + value;
    }
  }
  const divisors = new Float64Array(isNormalized ? output.length : 0);
  output.fill(0);
  for (const [m, values] of deltas.entries()) {
    const weight = weights[m] as number;
    for (let i = 0; i < output.length; i++) {
      // A sum of 0 counts as positive.
      const sign = (votes[i] as number) >= 0 ? 1 : -1;
      // NaN stays NaN.
      const agreeing = Math.max((values[i] as number) * sign, 0);
      output[i] = (output[i] as number) + agreeing * sign;
      if (isNormalized && agreeing !== 0) divisors[i] = (divisors[i] as number) + weight;
    }
  }
  for (let i = 0; i < divisors.length; i++) {
    output[i] = (output[i] as number) / divisorOf(divisors[i] as number);
  }
}

/** The passes of all sparsifiers of a tensor. */
class SparsifierSurvey implements Survey<InputRows> {
  readonly #sparsifiers: readonly (Sparsifier | null)[];

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
      const deltas = new Float32Array(values.length);
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
