/**
 * Work on long texts in slices: each `yield` is a place where the caller may let the event loop turn. Who
 * has no need to do so calls `inOneGo`.
 */

import { turnWhenDue } from './turns.js';

/** Work that is not finished before its generator returns. */
export type Slices<Result> = Generator<undefined, Result, unknown>;

/** Entries of a text in a slice: some 0.1 ms of work, 3 ms before the engine has compiled it. */
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

/** What the work gives for every item, in slices. */
export function* mapInSlices<Item, Result>(
  items: Iterable<Item>,
  work: (item: Item) => Result,
): Slices<Result[]> {
  const results: Result[] = [];
  yield* forEachInSlices(items, (item) => void results.push(work(item)));
  return results;
}

/** The items that are chosen, in slices. */
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
 * Does the work in turns, between which the event loop goes on. Rejects with the signal's reason once that is
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
