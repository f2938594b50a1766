/**
 * The order of strings by their code points, which is the order of their UTF-8 bytes: that of names
 * and metadata keys in a header. JavaScript's own goes by UTF-16 units and puts U+1F600 before
 * U+FB01.
 */

import type { Work } from '../../work/work.js';

const FIRST_SURROGATE = 0xd800;
const FIRST_BEHIND_SURROGATES = 0xe000;

/** Half of a character beyond 16 bits: strings without one are in their order as JavaScript compares them. */
export const SURROGATE: RegExp = /[\ud800-\udfff]/;

/** Negative, zero or positive, as `Array.prototype.sort` asks. Both strings are well-formed. */
export function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) {
    const unitA = a.charCodeAt(i);
    const unitB = b.charCodeAt(i);
    if (unitA !== unitB) return weightOf(unitA) - weightOf(unitB);
  }
  return a.length - b.length;
}

/** Sorts in place by the names; equal ones keep their order. */
export function sortByName<Item>(items: Item[], nameOf: (item: Item) => string): void {
  items.sort(comparisonOf(items, nameOf));
}

/** Items that are sorted at once: about 2 ms. */
const RUN_LENGTH = 8192;

/** The same as work: sorts runs, then merges neighbours. */
export function* sortByNameYielding<Item>(
  items: Item[],
  nameOf: (item: Item) => string,
): Work<void> {
  const { length } = items;
  yield;
  const compare = comparisonOf(items, nameOf);
  if (length <= RUN_LENGTH) {
    items.sort(compare);
    return;
  }
  let from = items.slice();
  for (let begin = 0; begin < length; begin += RUN_LENGTH) {
    yield;
    const run = from.slice(begin, begin + RUN_LENGTH).sort(compare);
    for (let i = 0; i < run.length; i++) from[begin + i] = run[i] as Item;
  }
  let to = items;
  for (let width = RUN_LENGTH; width < length; width *= 2) {
    for (let begin = 0; begin < length; begin += 2 * width) {
      const middle = Math.min(begin + width, length);
      yield* mergeRuns(from, to, { begin, middle, end: Math.min(middle + width, length) }, compare);
    }
    [from, to] = [to, from];
  }
  if (from !== items) for (let i = 0; i < length; i++) items[i] = from[i] as Item;
}

/** Merges the sorted runs [begin, middle) and [middle, end) of `from` into the same places of `to`. */
function* mergeRuns<Item>(
  from: readonly Item[],
  to: Item[],
  { begin, middle, end }: { readonly begin: number; readonly middle: number; readonly end: number },
  compare: (a: Item, b: Item) => number,
): Work<void> {
  let [left, right] = [begin, middle];
  for (let at = begin; at < end; ) {
    const stop = Math.min(at + RUN_LENGTH, end);
    for (; at < stop; at++) {
      const isLeft =
        right >= end || (left < middle && compare(from[left] as Item, from[right] as Item) <= 0);
      to[at] = from[isLeft ? left++ : right++] as Item;
    }
    yield;
  }
}

/** Without surrogates JavaScript's order is the same, and comparing with it is three times as fast. */
function comparisonOf<Item>(
  items: readonly Item[],
  nameOf: (item: Item) => string,
): (a: Item, b: Item) => number {
  if (items.some((item) => SURROGATE.test(nameOf(item)))) {
    return (a, b) => compareCodePoints(nameOf(a), nameOf(b));
  }
  return (a, b) => {
    const nameA = nameOf(a);
    const nameB = nameOf(b);
    if (nameA === nameB) return 0;
    return nameA < nameB ? -1 : 1;
  };
}

/** Surrogates stand for code points above all others. */
function weightOf(unit: number): number {
  return unit >= FIRST_SURROGATE && unit < FIRST_BEHIND_SURROGATES ? unit + 0x10000 : unit;
}
