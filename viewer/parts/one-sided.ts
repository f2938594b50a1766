/** Differences that have no size: values of which only one is NaN or infinite. */

import type { ValueDifferences } from '../worker/compare.js';

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
