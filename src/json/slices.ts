/**
 * Work on long texts in slices: each `yield` is a place where the caller may let the event loop turn. Who
 * has no need to do so calls `inOneGo`.
 */

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

/** The event loop gets a turn after this much work. */
const LONGEST_TURN_MS = 5;

/** When the last turn that somebody waited for began, and the one that is waited for. */
let turnBeganAt = 0;
let waitedFor: Promise<void> | undefined;

/** Node's way to the next turn takes no millisecond; browsers have none of that name. */
const soon: (callback: () => void) => unknown = globalThis.setImmediate ?? setTimeout;

/** Whether work has gone on for so long that the event loop should get a turn. */
export function isTurnDue(): boolean {
  return performance.now() - turnBeganAt >= LONGEST_TURN_MS;
}

/** One turn for all work under way: each could otherwise fill a turn of its own length. */
export function nextTurn(): Promise<void> {
  waitedFor ??= new Promise<void>((resolve) => void soon(resolve)).then(() => {
    waitedFor = undefined;
    turnBeganAt = performance.now();
  });
  return waitedFor;
}

/** Does the work in turns, between which the event loop goes on. Rejects with the signal's reason once that is aborted. */
export async function inTurns<Result>(work: Slices<Result>, signal: AbortSignal): Promise<Result> {
  let next = work.next();
  while (next.done !== true) {
    if (isTurnDue()) {
      await nextTurn();
      signal.throwIfAborted();
    }
    next = work.next();
  }
  return next.value;
}
