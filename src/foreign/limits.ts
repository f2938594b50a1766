/** The limits of what reading a file of another format may cost, as the option `limits` takes them. */

import { type OptionNames, requireInteger, requireOptions } from '../errors/arguments.js';
import type { LayoutLimits } from './tensors/tensor-layout.js';
import { ARCHIVE_LIMITS, type ArchiveLimits } from './zip/limits.js';

/** Limits of archives and of single tensors. */
export interface ForeignLimits extends ArchiveLimits, LayoutLimits {}

/** Names of the limits of {@link ForeignLimits}. */
export const FOREIGN_LIMITS: OptionNames<ForeignLimits> = {
  ...ARCHIVE_LIMITS,
  maxTensorByteLength: true,
};

/**
 * Checks the option `limits`, and returns it; an empty object when it is left out.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE`, `ERR_INVALID_ARG_VALUE` for an unknown limit; RangeError
 *   `ERR_OUT_OF_RANGE` unless each limit is a positive integer
 */
export function requireLimits<Limits extends object>(
  limits: Limits | undefined,
  names: OptionNames<Limits>,
): Limits {
  if (limits === undefined) return {} as Limits;
  requireOptions(limits, names, 'limits');
  for (const [name, limit] of Object.entries(limits)) {
    if (limit !== undefined) {
      requireInteger(`limits.${name}`, limit, 1, Number.MAX_SAFE_INTEGER);
    }
  }
  return limits;
}
