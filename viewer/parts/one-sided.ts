/** Differences that have no size: values of which only one is NaN or infinite. */

import type { ValueDifferences } from '../worker/compare.js';
import { fixedPercent } from './format.js';

/** How the values of a tensor differ if no finite difference was found; null for all other tensors. */
export function oneSided(
  { relative, differing, maxError }: ValueDifferences,
  at: number,
): 'NaN' | 'Inf' | null {
  if (!((differing[at] as number) > 0)) return null;
  const most = maxError[at] as number;
  if (!(most > 0)) return 'NaN';
  return most === Number.POSITIVE_INFINITY && relative[at] === 0 ? 'Inf' : null;
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
  return kind === null ? format(result.relative[at] as number) : `${kind} in one only`;
}
