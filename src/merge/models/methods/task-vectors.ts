/** Task vectors, of which elements are dropped: TIES and DARE. */

import { cut } from '../../../work/byte-ranges.js';
import { type ElementSurvey, SELECT_ALL, taskVectorRules } from '../../elements.js';
import { subtractFirst } from './combination.js';
import type { InputRows, Kernel, KernelInputs, ModelSurvey } from './kernel.js';
import { LargestElements } from './magnitudes.js';
import { DrawnElements, SparsifiedVector } from './sparsified.js';

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
  const vectors = parameters.slice(1).map(({ density = 1 }, i) => {
    if (density >= 1) return new SparsifiedVector(null, isRescaled);
    const count = Math.max(1, Math.floor(density * elementCount));
    const sparsifier =
      by === 'chance' ? new DrawnElements(inputs.draw(i + 1, density)) : new LargestElements(count);
    return new SparsifiedVector(sparsifier, isRescaled);
  });
  const weights = parameters.slice(1).map(({ weight = 0 }) => weight);
  const lambda = settings['lambda'] as number;
  const factors = (): number[] => {
    const divisor = isNormalized && !isVoted ? divisorOf(sumOf(weights)) : 1;
    return vectors.map(({ factor }, i) => ((weights[i] as number) * factor) / divisor);
  };
  let known: Float64Array | undefined;
  const rules = (): Float64Array => {
    if (known !== undefined) return known;
    const own = factors();
    const models = vectors.map(({ selection = SELECT_ALL }, i) => {
      return { factor: own[i] as number, weight: weights[i] as number, selection };
    });
    known = taskVectorRules({ isVoted, lambda, isNormalized, models });
    return known;
  };
  return {
    survey: new VectorsSurvey(vectors),
    rules: vectors.every(({ selection }) => selection !== undefined) ? rules : undefined,
    combine(rows, first, output) {
      const [base, ...deltas] = rows as [Float64Array, ...Float64Array[]];
      subtractFirst(rows);
      for (const [i, values] of deltas.entries()) vectors[i]?.apply(values, first);
      if (isVoted) VOTED_SUMS.add(deltas, { factors: factors(), weights, isNormalized }, output);
      else addAll(deltas, factors(), output);
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

function addAll(deltas: InputRows, factors: readonly number[], output: Float64Array): void {
  output.fill(0);
  for (const [m, values] of deltas.entries()) {
    const factor = factors[m] as number;
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

/** The passes of all task vectors of a tensor. */
class VectorsSurvey implements ModelSurvey {
  readonly #vectors: readonly SparsifiedVector[];
  #deltas = new Float32Array(0);

  constructor(vectors: readonly SparsifiedVector[]) {
    this.#vectors = vectors;
  }

  get isDone(): boolean {
    return this.#vectors.every(({ isDone }) => isDone);
  }

  get ofElements(): readonly ElementSurvey[] {
    return this.#left().map(([i, vector]) => ({ ...vector.pass, inputs: [0, i + 1] }));
  }

  begin(): void {
    for (const [, vector] of this.#left()) vector.begin();
  }

  count([base, ...others]: InputRows, first: number): void {
    for (const [i, vector] of this.#left()) {
      const values = others[i] as Float64Array;
      if (this.#deltas.length < values.length) this.#deltas = new Float32Array(values.length);
      const deltas = this.#deltas.subarray(0, values.length);
      for (let k = 0; k < deltas.length; k++) {
        deltas[k] = (values[k] as number) - ((base as Float64Array)[k] as number);
      }
      vector.count(deltas, first);
    }
  }

  end(): void {
    for (const [, vector] of this.#left()) vector.end();
    this.#deltas = new Float32Array(0);
  }

  #left(): [index: number, vector: SparsifiedVector][] {
    return [...this.#vectors.entries()].filter(([, { isDone }]) => !isDone);
  }
}
