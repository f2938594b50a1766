/** Search and order of the list of tensors. */

import { type CommonEnds, commonEnds } from '../names.js';
import type { TensorList } from './info.js';

/** The order of a list; the file's own is `offset`. */
export type Order = 'name' | 'offset' | 'size';

const ORDERS: Readonly<Record<Order, (list: TensorList) => (a: number, b: number) => number>> = {
  name: ({ names }) => {
    const { compare } = new Intl.Collator('en', { numeric: true });
    return (a, b) => compare(names[a] as string, names[b] as string);
  },
  offset: ({ file, offset }) => {
    return (a, b) =>
      (file[a] as number) - (file[b] as number) || (offset[a] as number) - (offset[b] as number);
  },
  size: ({ byteLength }) => {
    return (a, b) => (byteLength[b] as number) - (byteLength[a] as number);
  },
};

/** Sorting 100 000 names takes half a second: once for each list. */
const sorted = new WeakMap<TensorList, Map<Order, Uint32Array>>();

function inOrder(list: TensorList, order: Order): Uint32Array {
  const known = sorted.get(list) ?? new Map<Order, Uint32Array>();
  sorted.set(list, known);
  const found = known.get(order) ?? Uint32Array.from(list.names.keys()).sort(ORDERS[order](list));
  known.set(order, found);
  return found;
}

/** Tensors that a search found. */
export interface Found {
  /** Their positions in the list. */
  readonly positions: Uint32Array;
  /** What all of their names begin and end with. */
  readonly ends: CommonEnds;
  /** Letters of the longest name. */
  readonly longest: number;
}

/** Finds tensors, and what their names have in common: of 100 000 names that takes longer than a frame of the page. */
export function find(list: TensorList, text: string, order: Order): Found {
  const positions = positionsOf(list, text, order);
  const names = Array.from(positions, (at) => list.names[at] as string);
  const longest = names.reduce((most, { length }) => Math.max(most, length), 0);
  return { positions, ends: commonEnds(names), longest };
}

/** Positions of the tensors whose names have all words of `text`, whatever their case, in an order. */
function positionsOf(list: TensorList, text: string, order: Order): Uint32Array {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const all = inOrder(list, order);
  if (words.length === 0) return all.slice();
  return all.filter((at) => {
    const name = (list.names[at] as string).toLowerCase();
    return words.every((word) => name.includes(word));
  });
}
