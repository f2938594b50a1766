/** The error for an unknown tensor name: names like it, or the range of a number in it. */

import { type ErrorContext, quoteName, TensorNotFoundError } from './errors.js';
import {
  MAX_COMPARED_LENGTH,
  MAX_COMPARED_NAMES,
  MAX_NEAR_NAMES,
  nearNames,
} from './near-names.js';
import { shardNumbersOf } from './shard-numbers.js';

/** Maximum numbers of a name to look at, and parts of its prefix to leave out: each searches all names. */
const MAX_NUMBERS = 4;
const MAX_LEFT_OUT = 3;

/** A number in a name, up to a dot, a slash or the end; and one that begins at a place. */
const NUMBER = /(?<=^|[./])\d{1,15}(?=[./]|$)/g;
const NUMBER_AT = /\d+(?=[./]|$)/y;

/** Returns the error for a name that is not among the names of all tensors. */
export function tensorNotFound(
  name: string,
  names: Iterable<string>,
  context: ErrorContext,
): TensorNotFoundError {
  if (name.length > MAX_COMPARED_LENGTH) return new TensorNotFoundError(name, [], context);
  const compared: string[] = [];
  let areAll = true;
  for (const one of names) {
    if (compared.length === MAX_COMPARED_NAMES || one.length > MAX_COMPARED_LENGTH) areAll = false;
    else compared.push(one);
  }
  const plain = name.replaceAll(NUMBER, (digits) => String(Number(digits)));
  const same = compared.filter((one) => one === plain || hasOtherPrefix(one, plain));
  if (same.length > 0 && same.length <= MAX_NEAR_NAMES) {
    return new TensorNotFoundError(name, same, context);
  }
  // A name that is not compared, or in another shard, may have any number.
  const isShard = context.path !== undefined && shardNumbersOf(context.path) !== null;
  const range = areAll && !isShard ? rangeAround(plain, compared) : null;
  return range === null
    ? new TensorNotFoundError(name, nearNames(name, compared), context)
    : new TensorNotFoundError(name, [], context, range);
}

/** Whether two names differ only in parts at the start, and share at least half of their characters. */
function hasOtherPrefix(one: string, other: string): boolean {
  const [shorter, longer] = one.length < other.length ? [one, other] : [other, one];
  const start = longer.length - shorter.length;
  return start <= shorter.length && longer[start - 1] === '.' && longer.endsWith(shorter);
}

/** The range of the first number of a name that is outside of it; null where all are inside, or unknown. */
function rangeAround(name: string, names: readonly string[]): string | null {
  for (const { index, 0: digits } of [...name.matchAll(NUMBER)].slice(0, MAX_NUMBERS)) {
    const range = rangeAfter(name.slice(0, index), names);
    if (range === null) return null;
    const { prefix, least, most } = range;
    const number = Number(digits);
    if (number < least || number > most) {
      const all = quoteName(`${prefix}*`);
      return least === most
        ? `; the only number in ${all} is ${least}`
        : `; numbers in ${all} go from ${least} to ${most}`;
    }
  }
  return null;
}

interface NumberRange {
  /** The start of the names, which may have more parts or fewer than the requested one. */
  readonly prefix: string;
  readonly least: number;
  readonly most: number;
}

/** The numbers that follow a prefix in the names, with more or fewer parts at its start. */
function rangeAfter(prefix: string, names: readonly string[]): NumberRange | null {
  const parts = prefix.split('.');
  for (let first = 0; first < Math.min(parts.length - 1, MAX_LEFT_OUT + 1); first++) {
    const end = parts.slice(first).join('.');
    let range: NumberRange | null = null;
    for (const name of names) {
      const at = name.startsWith(end) ? 0 : name.indexOf(`.${end}`) + 1;
      if (at === 0 && !name.startsWith(end)) continue;
      const length = at + end.length;
      NUMBER_AT.lastIndex = length;
      const digits = NUMBER_AT.exec(name)?.[0];
      if (digits === undefined) continue;
      const number = Number(digits);
      if (!Number.isSafeInteger(number)) return null;
      range ??= { prefix: name.slice(0, length), least: number, most: number };
      // Two models in one file, such as text and vision, have two ranges.
      if (range.prefix.length !== length || !name.startsWith(range.prefix)) return null;
      if (number < range.least) range = { ...range, least: number };
      else if (number > range.most) range = { ...range, most: number };
    }
    if (range !== null) return range;
  }
  return null;
}
