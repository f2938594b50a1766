/** Spherical interpolation of two tensors, as vectors of all their elements. */

import { Products, surveyedSum } from './combination.js';
import type { Kernel } from './kernel.js';

/** Shorter vectors have no direction. */
const MIN_NORM = 1e-8;

/** Vectors at a smaller angle, or nearly opposite ones, are interpolated linearly. */
const MAX_COSINE = 0.9995;

/** Interpolates from the base to the other input; `t` is 0 for the base, and 1 for the other. */
export function slerp(t: number): Kernel {
  return surveyedSum(new Products(2, false), (products) => {
    const [one, other] = [normOf(products, 0), normOf(products, 1)];
    const cosine = products.of(0, 1) / (one * other);
    if (Math.abs(cosine) > MAX_COSINE) return [1 - t, t];
    const angle = Math.acos(cosine);
    const sine = Math.sin(angle);
    return [Math.sin(angle * (1 - t)) / sine, Math.sin(angle * t) / sine];
  });
}

function normOf(products: Products, input: number): number {
  const norm = Math.sqrt(products.of(input, input));
  return norm > MIN_NORM ? norm : 1;
}
