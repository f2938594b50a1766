/** Slices as text, in the notation that stands between the brackets in numpy. */

import { argumentRangeError, requireString } from '../errors/arguments.js';
import type { SliceIndex } from './slice.js';

const INTEGER = /^[+-]?[0-9]+$/;

/**
 * Reads a slice in numpy's notation: `'0:10, ::2'` gives `[[0, 10], [null, null, 2]]`, `':'` gives
 * `null`, `''` gives no index at all. Spaces are free, one comma may stand at the end. There is no
 * `None`: indices do not add dimensions.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` when `text` is not a string
 * @throws RangeError `ERR_OUT_OF_RANGE` for another notation
 */
export function parseSlice(text: string): SliceIndex[] {
  requireString('slice', text);
  const items = text.split(',').map((item) => item.trim());
  if (items.at(-1) === '') items.pop();
  return items.map((item) => parseItem(item, text));
}

function parseItem(item: string, text: string): SliceIndex {
  if (item === '...') return '...';
  const parts = item.split(':').map((part) => part.trim());
  if (parts.length > 3) throw syntaxError(text);
  if (parts.length === 1) return parseInteger(item, text);
  const [start, stop, step] = parts.map((part) => (part === '' ? null : parseInteger(part, text)));
  if (step != null) return [start ?? null, stop ?? null, step];
  return start === null && stop === null ? null : [start ?? null, stop ?? null];
}

function parseInteger(digits: string, text: string): number {
  if (!INTEGER.test(digits)) throw syntaxError(text);
  // The sum turns -0 into 0.
  return Number(digits) + 0;
}

function syntaxError(text: string): RangeError {
  return argumentRangeError('slice', "in numpy's notation, such as '0:10, ::2, ..., -1'", text);
}
