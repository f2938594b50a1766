/** The memory of values, counted before they are built. */

import {
  PickleBytes,
  PickleFloat,
  PickleList,
  PickleMap,
  PickleSet,
  type PickleValue,
} from './values.js';

/** Memory of values in bytes: about as in V8, rather more for small values. */
export const COST = {
  object: 48,
  tuple: 56,
  list: 96,
  dict: 88,
  set: 184,
  bytes: 288,
  float: 72,
  /** A number other than a small integer. */
  number: 16,
  /** A named global. Picklers name each once. */
  global: 256,
  placeholder: 112,
  /** An item of a tuple. */
  item: 8,
  /** A memoized value; a full array grows by half its length. */
  memoItem: 12,
  /** An item of a list, whose full array grows by half its length; and the first item. */
  listItem: 16,
  firstListItem: 144,
  /**
   * An entry of a dict or set; the first entry; an entry whose key is not a string. A growing dict exists twice, with
   * free places.
   */
  entry: 128,
  firstEntry: 128,
  otherKey: 256,
  /** A memoized value with any other number than the next. Picklers number one by one. */
  sparseItem: 256,
  text: 24,
  bigint: 288,
  /** A host's result of a call or of a persistent id. */
  made: 80,
} as const;

/** Memory of a call that copies its argument. */
export function costOfCopy(value: PickleValue): number {
  if (typeof value === 'string') return 2 * value.length;
  if (value instanceof PickleBytes) return value.bytes.length;
  if (value instanceof PickleList) return value.items.length * (COST.entry + COST.otherKey);
  return value instanceof PickleMap ? value.size * (COST.entry + COST.otherKey) : 0;
}

/** Memory of a literal other than a string. */
export function costOfLiteral(value: PickleValue): number {
  if (typeof value === 'number') return (value | 0) === value ? 0 : COST.number;
  if (typeof value === 'bigint') return COST.bigint;
  if (typeof value !== 'object' || value === null) return 0;
  if (value instanceof PickleMap) return COST.dict;
  if (value instanceof PickleList) return COST.list;
  if (value instanceof PickleSet) return COST.set;
  if (value instanceof PickleFloat) return COST.float;
  if (Array.isArray(value)) return COST.tuple;
  return value instanceof PickleBytes ? COST.bytes + value.bytes.length : COST.object;
}
