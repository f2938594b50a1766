/** Computes the length of NumPy items of every kind: a scan needs the length of each array. */

import type { PythonLiteral } from './literal.js';

/** Kinds of items in the exact spelling that NumPy writes in headers. */
const NUMBER_KIND = /^[<>|=]?(?:b1|[iu][1248]|f(?:2|4|8|12|16)|c(?:8|16|24|32))$/;
const TEXT_KIND = /^[<>|=]?([SUV])(\d{1,9})$/;
const TIME = /^[<>=]?[Mm]8(?:\[\d{0,9}[A-Za-z]{1,7}(?:\/\d{1,9})?\])?$/;
const OBJECT = /^\|?O$/;

/** A character of a text takes 4 bytes. */
const CHARACTER_BYTE_LENGTH = 4;

/** The answer for items with objects, which are in a pickle. */
export const OBJECTS = 'objects';

/**
 * Returns the bytes of an item; {@link OBJECTS} for items with objects; undefined for another spelling than NumPy's.
 */
export function itemLengthOf(descr: PythonLiteral): bigint | typeof OBJECTS | undefined {
  if (typeof descr === 'string') return lengthOfKind(descr);
  if (typeof descr !== 'object') return undefined;
  if ('tuple' in descr) {
    const [base, shape] = descr.tuple;
    return descr.tuple.length === 2 ? lengthOfMany(base, shape) : undefined;
  }
  let sum = 0n;
  let hasObjects = false;
  for (const field of descr.list) {
    const length = lengthOfField(field);
    if (length === undefined) return undefined;
    if (length === OBJECTS) hasObjects = true;
    else sum += length;
  }
  return hasObjects ? OBJECTS : sum;
}

function lengthOfKind(kind: string): bigint | typeof OBJECTS | undefined {
  if (OBJECT.test(kind)) return OBJECTS;
  if (NUMBER_KIND.test(kind)) return BigInt(kind.replace(/\D/g, ''));
  if (TIME.test(kind)) return 8n;
  const [, letter, digits] = TEXT_KIND.exec(kind) ?? [];
  if (digits === undefined) return undefined;
  return BigInt(digits) * BigInt(letter === 'U' ? CHARACTER_BYTE_LENGTH : 1);
}

/** A field: its name, or title and name; its kind; optionally its shape. */
function lengthOfField(field: PythonLiteral): bigint | typeof OBJECTS | undefined {
  if (typeof field !== 'object' || !('tuple' in field)) return undefined;
  const [name, kind, shape = { tuple: [] }] = field.tuple;
  const names = typeof name === 'object' && 'tuple' in name ? name.tuple : [name];
  const isNamed = names.length <= 2 && names.every((part) => typeof part === 'string');
  return isNamed && field.tuple.length <= 3 ? lengthOfMany(kind, shape) : undefined;
}

function lengthOfMany(
  kind: PythonLiteral | undefined,
  shape: PythonLiteral | undefined,
): bigint | typeof OBJECTS | undefined {
  const length = kind === undefined ? undefined : itemLengthOf(kind);
  if (typeof shape !== 'object' || !('tuple' in shape)) return undefined;
  let product = 1n;
  for (const size of shape.tuple) {
    if (typeof size !== 'number' && typeof size !== 'bigint') return undefined;
    product *= BigInt(size);
  }
  return typeof length === 'bigint' ? length * product : length;
}
