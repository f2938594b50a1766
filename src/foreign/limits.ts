/** What reading a file of another format may cost. */

import { type OptionNames, requireInteger } from '../errors/arguments.js';
import type { LayoutLimits } from './tensors/tensor-layout.js';
import { ARCHIVE_LIMITS, type ArchiveLimits } from './zip/limits.js';

/** Limits of archives and of single tensors. */
export interface ForeignLimits extends ArchiveLimits, LayoutLimits {}

/** Names of the limits. */
export const FOREIGN_LIMITS: OptionNames<ForeignLimits> = {
  ...ARCHIVE_LIMITS,
  maxTensorByteLength: true,
};

/** Throws a TypeError or a RangeError unless each limit is a positive integer or left out. */
export function requireLimits(limits: ForeignLimits): void {
  for (const name of Object.keys(FOREIGN_LIMITS) as (keyof ForeignLimits)[]) {
    const limit = limits[name];
    if (limit !== undefined) requireInteger(name, limit, 1, Number.MAX_SAFE_INTEGER);
  }
}
