/**
 * The error for an unknown tensor name whose numbers or prefix are wrong. Only Node uses it: the viewer's page has the
 * shorter hints of `near-names`.
 */

import { type ErrorContext, TensorNotFoundError } from './errors.js';
import {
  MAX_COMPARED_LENGTH,
  MAX_COMPARED_NAMES,
  MAX_NEAR_NAMES,
  nearNames,
} from './near-names.js';

/** Most numbers of a name to look at, and most parts of its prefix to leave out: each searches all names. */
const MAX_NUMBERS = 4;
const MAX_LEFT_OUT = 3;

/** A number in a name, between dots or slashes. */
const NUMBER = /(?<=^|[./])\d{1,15}(?=[./]|$)/g;

/** Returns the error for a name that is not among the names of all tensors. */
export function tensorNotFound(
  name: string,
  names: Iterable<string>,
  context: ErrorContext,
): TensorNotFoundError {
  if (name.length > MAX_COMPARED_LENGTH) return new TensorNotFoundError(name, [], context);
  const compared: string[] = [];
  for (const one of names) {
    if (compared.length === MAX_COMPARED_NAMES) break;
    if (one.length <= MAX_COMPARED_LENGTH) compared.push(one);
  }
  const plain = name.replaceAll(NUMBER, (digits) => String(Number(digits)));
  const same = compared.filter((one) => one === plain || hasOtherPrefix(one, plain));
  if (same.length > 0 && same.length <= MAX_NEAR_NAMES) {
    return new TensorNotFoundError(name, same, context);
  }
  const range = rangeAround(plain, compared);
  return range === undefined
    ? new TensorNotFoundError(name, nearNames(name, compared), context)
    : new TensorNotFoundError(name, [], context, range);
}

/** Whether two names differ only in parts at the start, and share most of their parts. */
function hasOtherPrefix(one: string, other: string): boolean {
  const [shorter, longer] = one.length < other.length ? [one, other] : [other, one];
  return longer.endsWith(`.${shorter}`) && 2 * shorter.length >= longer.length;
}

/** The range of the first number of a name that is outside of it; undefined where all are inside, or unknown. */
function rangeAround(name: string, names: readonly string[]): string | undefined {
  for (const { index, 0: digits } of [...name.matchAll(NUMBER)].slice(0, MAX_NUMBERS)) {
    const range = rangeAfter(name.slice(0, index), names);
    if (range === undefined) return undefined;
    const { prefix, least, most } = range;
    const number = Number(digits);
    if (number < least || number > most) {
      return `; numbers in ${prefix}* go from ${least} to ${most}`;
    }
  }
  return undefined;
}

interface NumberRange {
  /** The start of the names, which may have more parts or fewer than the requested one. */
  readonly prefix: string;
  readonly least: number;
  readonly most: number;
}

/** The numbers that follow a prefix in the names, with more or fewer parts at its start. */
function rangeAfter(prefix: string, names: readonly string[]): NumberRange | undefined {
  const parts = prefix.split('.');
  for (let first = 0; first < Math.min(parts.length - 1, MAX_LEFT_OUT + 1); first++) {
    const end = parts.slice(first).join('.');
    const numbers = new Map<string, number[]>();
    for (const name of names) {
      const at = `.${name}`.indexOf(`.${end}`);
      const [digits] =
        at === -1 ? [] : (/^\d{1,15}(?=[./]|$)/.exec(name.slice(at + end.length)) ?? []);
      if (digits === undefined) continue;
      const found = name.slice(0, at + end.length);
      const known = numbers.get(found) ?? [];
      numbers.set(found, known);
      known.push(Number(digits));
    }
    const [only, other] = numbers;
    // Two models in one file, such as text and vision, have two ranges.
    if (other !== undefined) return undefined;
    if (only !== undefined) {
      const [found, all] = only;
      const least = all.reduce((min, one) => Math.min(min, one));
      return { prefix: found, least, most: all.reduce((max, one) => Math.max(max, one)) };
    }
  }
  return undefined;
}
