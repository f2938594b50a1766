/** Pieces at the same place, which ranks save when they replicate a tensor. */

import { type ErrorContext, type FormatError, quoteName } from '../../../errors/errors.js';
import { invalid } from './distributed-error.js';

/** Whether two arrays of the same length are equal. */
export function areEqual(one: Uint8Array, other: Uint8Array): boolean {
  for (let i = 0; i < one.length; i++) if (one[i] !== other[i]) return false;
  return true;
}

/** The error for pieces at a place that have different bytes. */
export function differing(
  place: string,
  files: readonly [string, string],
  context: ErrorContext,
): FormatError {
  return invalid(`the pieces [${place}] in ${files.map(quoteName).join(' and ')} differ`, context);
}
