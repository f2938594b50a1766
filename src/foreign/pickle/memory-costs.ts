/** How much memory values take, as it is counted before they are made. */

import {
  PickleBytes,
  PickleFloat,
  PickleList,
  PickleMap,
  PickleSet,
  type PickleValue,
} from './values.js';

/** What values take of memory, in bytes: about as much as in V8, for small ones rather more. */
export const COST = {
  object: 48,
  tuple: 56,
  list: 96,
  dict: 88,
  set: 184,
  bytes: 288,
  float: 72,
  /** A number that is no small integer. */
  number: 16,
  /** A global that is named. Picklers name each once. */
  global: 256,
  placeholder: 112,
  /** An item of a tuple. */
  item: 8,
  /** A memoized value, of which an array grows by half of its length when it is full. */
  memoItem: 12,
  /** An item of a list, which grows by half of its length when it is full; and the first one. */
  listItem: 16,
  firstListItem: 144,
  /**
   * An entry of a dict or set, the first one, and one whose key is no text. A dict that grows is there twice,
   * with places that nothing is in yet.
   */
  entry: 128,
  firstEntry: 128,
  oddKey: 256,
  /** A memoized value whose number is not the next one. Picklers number one by one. */
  sparseItem: 256,
  text: 24,
  bigint: 288,
  /** What a host makes of a call or of a persistent id. */
  made: 80,
} as const;

/** What a call may take of memory that copies its argument. */
export function costOfCopy(value: PickleValue): number {
  if (typeof value === 'string') return 2 * value.length;
  if (value instanceof PickleBytes) return value.bytes.length;
  if (value instanceof PickleList) return value.items.length * (COST.entry + COST.oddKey);
  return value instanceof PickleMap ? value.size * (COST.entry + COST.oddKey) : 0;
}

/** What a value takes that stands in the pickle as it is, and is no text. */
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
