/** Differences that have no size: values of which only one is NaN or infinite. */

import type { ValueDifferences } from '../worker/compare.js';
import { fixedPercent } from './format.js';

/** Whether a tensor differs, and has NaN or infinities. */
export function isBroken({ differing, nonFinite }: ValueDifferences, at: number): boolean {
  return (differing[at] as number) > 0 && (nonFinite[at] as number) > 0;
}

/** How the values of a tensor differ if no finite difference was found; null for all other tensors. */
export function oneSided(result: ValueDifferences, at: number): 'NaN' | 'Inf' | null {
  if (!isBroken(result, at) || (result.relative[at] as number) > 0) return null;
  return result.maxError[at] === Number.POSITIVE_INFINITY ? 'Inf' : 'NaN';
}

/** The relative difference of a tensor for sorting: those without a size first. */
export function relativeSize(result: ValueDifferences, at: number): number {
  return oneSided(result, at) === null ? (result.relative[at] as number) : Number.POSITIVE_INFINITY;
}

/** The relative difference, or why there is none. */
export function formatRelative(
  result: ValueDifferences,
  at: number,
  format: (share: number) => string = fixedPercent,
): string {
  const kind = oneSided(result, at);
  if (kind !== null) return `${kind} in one only`;
  return `${format(result.relative[at] as number)}${isBroken(result, at) ? ', NaN or Inf' : ''}`;
}
