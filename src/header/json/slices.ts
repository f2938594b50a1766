/**
 * Work on long texts in slices: at each `yield` the caller may let the event loop turn, or go on at once with
 * `inOneGo`.
 */

import { turnWhenDue } from './turns.js';

/** Work in slices: its result is what the generator returns. */
export type Slices<Result> = Generator<undefined, Result, unknown>;

/** Entries of a text per slice: some 0.1 ms of work, 3 ms before the engine has compiled it. */
export const SLICE_SIZE = 256;

/** Does the work for every item, in slices. */
export function* forEachInSlices<Item>(
  items: Iterable<Item>,
  work: (item: Item) => void,
): Slices<void> {
  let count = 0;
  for (const item of items) {
    if (count++ % SLICE_SIZE === 0) yield;
    work(item);
  }
}

/** Maps every item, in slices. */
export function* mapInSlices<Item, Result>(
  items: Iterable<Item>,
  work: (item: Item) => Result,
): Slices<Result[]> {
  const results: Result[] = [];
  yield* forEachInSlices(items, (item) => void results.push(work(item)));
  return results;
}

/** Filters items, in slices. */
export function* filterInSlices<Item>(
  items: Iterable<Item>,
  isChosen: (item: Item) => boolean,
): Slices<Item[]> {
  const chosen: Item[] = [];
  yield* forEachInSlices(items, (item) => {
    if (isChosen(item)) chosen.push(item);
  });
  return chosen;
}

/** Does all of the work now. */
export function inOneGo<Result>(work: Slices<Result>): Result {
  let next = work.next();
  while (next.done !== true) next = work.next();
  return next.value;
}

/**
 * Does the work in turns and lets the event loop run between them. Rejects with the signal's reason once that is
 * aborted.
 */
export async function inTurns<Result>(work: Slices<Result>, signal: AbortSignal): Promise<Result> {
  let next = work.next();
  while (next.done !== true) {
    const turn = turnWhenDue();
    if (turn !== undefined) {
      await turn;
      signal.throwIfAborted();
    }
    next = work.next();
  }
  return next.value;
}
