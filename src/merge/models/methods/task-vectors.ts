/** Task vectors, of which elements are dropped: TIES and DARE. */

import { cut } from '../../../work/byte-ranges.js';
import type { Survey } from '../../survey.js';
import { subtractFirst } from './combination.js';
import type { Draw, InputRows, Kernel, KernelInputs } from './kernel.js';
import { LargestElements, rescaleFactor, type Sparsifier } from './magnitudes.js';

/** Elements whose values are voted on at once. */
const VOTED_LENGTH = 2 ** 15;

/** Smaller totals of weights are replaced by 1 as a divisor. */
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
      if (isVoted) VOTED_SUMS.add(deltas, { factors, weights, isNormalized }, output);
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

/**
 * Adds up the values whose sign has the larger sum. Signs are random: with a branch on each, most of the time would go
 * into branches that the processor predicts wrongly. So the sign bit of a value is the index of the sum it goes to.
 */
class VotedSums {
  /** For every element the sum of its positive values, then that of its negative ones. */
  readonly #sums = new Float64Array(2 * VOTED_LENGTH);
  /** The same of weights. */
  readonly #weights = new Float64Array(2 * VOTED_LENGTH);
  readonly #votes = new Float64Array(VOTED_LENGTH);

  add(deltas: InputRows, rules: SumRules, output: Float64Array): void {
    for (const { begin, end } of cut(0, output.length, VOTED_LENGTH)) {
      const parts = deltas.map((values) => values.subarray(begin, end));
      this.#addPart(parts, rules, output.subarray(begin, end));
    }
  }

  #addPart(
    deltas: InputRows,
    { factors, weights, isNormalized }: SumRules,
    output: Float64Array,
  ): void {
    const { length } = output;
    const [sums, ofSigns, votes] = [this.#sums, this.#weights, this.#votes];
    for (const memory of [sums, ofSigns, votes]) memory.fill(0);
    for (const [m, values] of deltas.entries()) {
      const [factor, weight] = [factors[m] as number, weights[m] as number];
      const flip = factor < 0 ? 1 : 0;
      const words = new Int32Array(values.buffer, values.byteOffset, 2 * length);
      for (let i = 0; i < length; i++) {
        const value = factor * (values[i] as number);
        const high = words[2 * i + 1] as number;
        const at = 2 * i + ((high >>> 31) ^ flip);
        votes[i] = (votes[i] as number) + value;
        sums[at] = (sums[at] as number) + value;
        if (!isNormalized) continue;
        const magnitude = (high & 0x7fffffff) | (words[2 * i] as number);
        // 0 for a value of 0, which has no weight; else 1.
        const isAny = (magnitude | -magnitude) >>> 31;
        ofSigns[at] = (ofSigns[at] as number) + weight * isAny;
      }
    }
    const words = new Int32Array(votes.buffer, votes.byteOffset, 2 * length);
    for (let i = 0; i < length; i++) {
      // A sum of 0 counts as positive, and is never -0.
      const at = 2 * i + ((words[2 * i + 1] as number) >>> 31);
      const divisor = isNormalized ? divisorOf(ofSigns[at] as number) : 1;
      const vote = votes[i] as number;
      output[i] = Number.isNaN(vote) ? vote : (sums[at] as number) / divisor;
    }
  }
}

/** Shared by all tensors: sums are added up without waiting, and a view retains the kernel of every tensor. */
const VOTED_SUMS = new VotedSums();

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
    this.#deltas = new Float32Array(0);
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
