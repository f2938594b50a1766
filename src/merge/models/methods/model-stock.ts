/** Model stock: from the base towards the mean of the models, as far as their task vectors agree. */

import { Products, surveyedSum } from './combination.js';
import type { InputRows, Kernel } from './kernel.js';

/** Merges the base, which is the first of `count` inputs, with the other ones. */
export function modelStock(count: number): Kernel {
  return surveyedSum(new Products(count, true), (products) => {
    return coefficientsOf(count, (one, other) => products.of(one, other));
  });
}

/** As above for each row by itself. `rowLength` divides the length of the rows that are merged at once. */
export function modelStockByRow(count: number, rowLength: number): Kernel {
  return {
    combine(inputs, _, output) {
      for (let at = 0; at < output.length; at += rowLength) {
        const rows = inputs.map((values) => values.slice(at, at + rowLength));
        const products = new Products(count, true);
        products.count(rows, 0);
        products.end();
        const parts = coefficientsOf(count, (one, other) => products.of(one, other));
        const into = output.subarray(at, at + rowLength);
        addRow(rows, parts, into);
      }
    },
  };
}

/** Adds up the base and differences from it. */
function addRow(rows: InputRows, parts: readonly number[], output: Float64Array): void {
  const [base, ...differences] = rows;
  output.set(base as Float64Array);
  for (const [i, values] of differences.entries()) {
    const part = parts[i + 1] as number;
    for (let k = 0; k < output.length; k++) {
      output[k] = (output[k] as number) + part * (values[k] as number);
    }
  }
}

function coefficientsOf(
  count: number,
  product: (one: number, other: number) => number,
): readonly number[] {
  const models = count - 1;
  const cosines: number[] = [];
  for (let one = 0; one < models; one++) {
    for (let other = one + 1; other < models; other++) {
      const norms = Math.sqrt(product(one, one)) * Math.sqrt(product(other, other));
      const cosine = product(one, other) / Math.max(norms, 1e-6);
      cosines.push(Math.min(Math.max(cosine, -1), 1));
    }
  }
  const cosine = cosines.reduce((sum, one) => sum + one, 0) / cosines.length;
  const t = (models * cosine) / (1 + (models - 1) * cosine);
  return [1 - t, ...Array<number>(models).fill(t / models)];
}
