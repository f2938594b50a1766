/** How much memory values take, as it is counted before they are made. */

import { PickleBytes, PickleList, PickleMap, type PickleValue } from './values.js';

/** What values take of memory, in bytes: about as much as in V8, for small ones rather more. */
export const COST = {
  object: 48,
  /** An item of a tuple, a memoized value. */
  item: 8,
  /** An item of a list, which grows by half of its length when it is full; and the first one. */
  listItem: 16,
  firstListItem: 144,
  /** An entry of a dict or set, the first one, and one whose key is no text. */
  entry: 64,
  firstEntry: 192,
  oddKey: 256,
  /** A memoized value whose number is not the next one. */
  sparseItem: 64,
  text: 32,
  bigint: 288,
  /** What a host makes of a call or of a persistent id. */
  made: 80,
} as const;

/** What a call may take of memory that copies its argument. */
export function costOfCopy(value: PickleValue): number {
  if (typeof value === 'string') return 2 * value.length;
  if (value instanceof PickleBytes) return value.bytes.length;
  if (value instanceof PickleList) return value.items.length * (COST.entry + COST.oddKey);
  return value instanceof PickleMap ? value.size * COST.entry : 0;
}
