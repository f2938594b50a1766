/** Names of tensors: the keys that lead to them, joined by dots. */

import { quoteName } from '../../errors/errors.js';
import { PickleBytes, PickleFloat, PickleGlobal, type PickleValue } from '../pickle/values.js';

/** A place in a checkpoint: a key in the place before; undefined for the outermost value. */
export interface Place {
  readonly parent: Place | undefined;
  readonly key: PickleValue;
  /** Number of keys that lead here. */
  readonly depth: number;
}

/** The keys that lead to a place. */
export function keysOf(place: Place | undefined): PickleValue[] {
  const keys: PickleValue[] = [];
  for (let at = place; at !== undefined; at = at.parent) keys.push(at.key);
  return keys.reverse();
}

/** The name of what is at a place; of the outermost value it is empty. */
export function nameOf(place: Place | undefined): string {
  if (place === undefined) return '';
  let name = keyText(place.key);
  for (let at = place.parent; at !== undefined; at = at.parent) name = `${keyText(at.key)}.${name}`;
  return name;
}

/** The keys that lead to a place, for messages. */
export function showKeys(place: Place | undefined): string {
  return `[${keysOf(place)
    .map((key) => quoteName(keyText(key)))
    .join(', ')}]`;
}

/** Length of a name without making it: keys may be long, and shared by many names. */
export function nameLengthOf(place: Place | undefined): number {
  let length = 0;
  for (let at = place; at !== undefined; at = at.parent) {
    length += typeof at.key === 'string' ? at.key.length + 1 : MAX_KEY_TEXT_LENGTH;
  }
  return length;
}

/** About as long is a key that is no text. */
const MAX_KEY_TEXT_LENGTH = 32;

/** A key as Python's `str` shows it. */
export function keyText(key: PickleValue): string {
  return typeof key === 'string' ? key : shown(key);
}

/** A value as Python's `repr` shows it. */
function shown(value: PickleValue): string {
  if (value === null) return 'None';
  if (value === true) return 'True';
  if (value === false) return 'False';
  if (typeof value === 'string') return `'${value}'`;
  if (value instanceof PickleFloat) return shownFloat(value.value);
  if (value instanceof PickleBytes) return `b'${String.fromCharCode(...value.bytes)}'`;
  if (value instanceof PickleGlobal) return value.path;
  if (!Array.isArray(value)) return `${value}`;
  const items = value.map(shown).join(', ');
  return value.length === 1 ? `(${items},)` : `(${items})`;
}

/** A float: the digits are those of JavaScript; below 1e-4 and from 1e16 on there is an exponent. */
function shownFloat(value: number): string {
  if (!Number.isFinite(value)) return `${value}`.replace('Infinity', 'inf').toLowerCase();
  const sign = Object.is(value, -0) ? '-' : '';
  const magnitude = Math.abs(value);
  if (magnitude === 0 || (magnitude >= 1e-4 && magnitude < 1e16)) {
    return `${sign}${value}${Number.isInteger(value) ? '.0' : ''}`;
  }
  return value.toExponential().replace(/e([+-])(\d)$/, 'e$10$2');
}
