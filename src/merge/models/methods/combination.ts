/** Weighted sums of the inputs: linear, passthrough, task arithmetic, and sums whose weights depend on all rows. */

import type { Survey } from '../../survey.js';
import type { InputRows, Kernel } from './kernel.js';

/**
 * Adds up the inputs, each times its coefficient. Inputs without one are ignored: they may be infinite, and a
 * coefficient of 0 would make NaN of these.
 */
export function weightedSum(coefficients: readonly number[]): Kernel {
  return {
    combine: (inputs, _, output) => addScaled(inputs, coefficients, output),
    coefficients: () => coefficients,
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
  return {
    survey: products,
    combine: (inputs, _, output) => addScaled(inputs, coefficients(), output),
    coefficients: () => (products.isDone ? coefficients() : null),
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
export class Products implements Survey<InputRows> {
  readonly #count: number;
  readonly #areDifferences: boolean;
  readonly #sums: Float64Array;
  #isDone = false;

  constructor(count: number, areDifferences: boolean) {
    this.#count = count;
    this.#areDifferences = areDifferences;
    this.#sums = new Float64Array(count * count);
  }

  get isDone(): boolean {
    return this.#isDone;
  }

  /** The dot product of two inputs. */
  of(one: number, other: number): number {
    return this.#sums[Math.min(one, other) * this.#count + Math.max(one, other)] as number;
  }

  begin(): void {
    this.#sums.fill(0);
  }

  count(inputs: InputRows): void {
    const begin = this.#areDifferences ? 1 : 0;
    if (this.#areDifferences) subtractFirst(inputs);
    for (let one = begin; one < inputs.length; one++) {
      for (let other = one; other < inputs.length; other++) {
        const at = one * this.#count + other;
        const product = dot(inputs[one] as Float64Array, inputs[other] as Float64Array);
        this.#sums[at] = (this.#sums[at] as number) + product;
      }
    }
  }

  end(): void {
    this.#isDone = true;
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

function dot(one: Float64Array, other: Float64Array): number {
  let sum = 0;
  for (let i = 0; i < one.length; i++) sum += (one[i] as number) * (other[i] as number);
  return sum;
}
