/** Weighted sums of the inputs: linear, passthrough, task arithmetic, and sums whose weights depend on all rows. */

import { type ElementSurvey, weightedRules } from '../../elements.js';
import type { InputRows, Kernel, ModelSurvey } from './kernel.js';
import { LANES, PieceSums, sumOfLanes } from './lanes.js';

/**
 * Adds up the inputs, each times its coefficient. Inputs without one are ignored: they may be infinite, and a
 * coefficient of 0 would make NaN of these.
 */
export function weightedSum(coefficients: readonly number[]): Kernel {
  const rules = weightedRules(coefficients);
  return {
    combine: (inputs, _, output) => addScaled(inputs, coefficients, output),
    rules: () => rules,
  };
}

/** As above, with coefficients that depend on the products of the inputs. */
export function surveyedSum(
  products: Products,
  coefficientsOf: (products: Products) => readonly number[],
): Kernel {
  let known: readonly number[] | undefined;
  const coefficients = (): readonly number[] => {
    known ??= coefficientsOf(products);
    return known;
  };
  let rules: Float64Array | undefined;
  return {
    survey: products,
    combine: (inputs, _, output) => addScaled(inputs, coefficients(), output),
    rules: () => {
      rules ??= weightedRules(coefficients());
      return rules;
    },
  };
}

function addScaled(inputs: InputRows, coefficients: readonly number[], output: Float64Array): void {
  for (const [input, coefficient] of coefficients.entries()) {
    const values = inputs[input] as Float64Array;
    if (input === 0) {
      for (let i = 0; i < output.length; i++) output[i] = coefficient * (values[i] as number);
    } else {
      for (let i = 0; i < output.length; i++) {
        output[i] = (output[i] as number) + coefficient * (values[i] as number);
      }
    }
  }
}

/** Dot products of all pairs of inputs, or of their differences from the first one. */
export class Products implements ModelSurvey {
  readonly ofElements: readonly ElementSurvey[];
  /** Number of vectors. */
  readonly #count: number;
  readonly #areDifferences: boolean;
  /** Sums of all pairs, of which the first is not after the second. */
  readonly #pieces: PieceSums;
  /** The same of all pieces, in lanes; null before the end of the pass. */
  #sums: Float64Array | null = null;

  constructor(inputCount: number, areDifferences: boolean) {
    const count = areDifferences ? inputCount - 1 : inputCount;
    this.#count = count;
    this.#areDifferences = areDifferences;
    const pieces = new PieceSums((count * (count + 1)) / 2);
    this.#pieces = pieces;
    const inputs = Array.from({ length: inputCount }, (_, input) => input);
    const rule = Float64Array.of(areDifferences ? 1 : 0);
    this.ofElements = [{ kind: 'products', inputs, rule, resultsOf: (piece) => pieces.of(piece) }];
  }

  get isDone(): boolean {
    return this.#sums !== null;
  }

  /** The dot product of two vectors. */
  of(one: number, other: number): number {
    if (this.#sums === null) throw new Error('products are used before the end of the pass');
    return sumOfLanes(this.#lanesOf(this.#sums, Math.min(one, other), Math.max(one, other)));
  }

  #lanesOf(sums: Float64Array, one: number, other: number): Float64Array {
    // Each of the vectors before the first one has one pair less than the one before it.
    const pair = one * this.#count - (one * (one - 1)) / 2 + other - one;
    return sums.subarray(pair * LANES, (pair + 1) * LANES);
  }

  begin(): void {
    this.#pieces.clear();
  }

  count(inputs: InputRows, first: number): void {
    if (this.#areDifferences) subtractFirst(inputs);
    const vectors = this.#areDifferences ? inputs.slice(1) : inputs;
    this.#pieces.addTo(first, vectors[0]?.length ?? 0, (sums, begin, end) => {
      const parts = vectors.map((values) => values.subarray(begin, end));
      for (const [one, values] of parts.entries()) {
        for (let other = one; other < parts.length; other++) {
          const lanes = this.#lanesOf(sums, one, other);
          addDot(values, parts[other] as Float64Array, first + begin, lanes);
        }
      }
    });
  }

  end(): void {
    this.#sums = this.#pieces.end();
  }
}

/** Subtracts the first input from all others, in place. */
export function subtractFirst([base, ...others]: InputRows): void {
  for (const values of others) {
    for (let i = 0; i < values.length; i++) {
      values[i] = (values[i] as number) - ((base as Float64Array)[i] as number);
    }
  }
}

function addDot(one: Float64Array, other: Float64Array, first: number, lanes: Float64Array): void {
  for (let i = 0; i < one.length; i++) {
    const lane = (first + i) % LANES;
    lanes[lane] = (lanes[lane] as number) + (one[i] as number) * (other[i] as number);
  }
}
