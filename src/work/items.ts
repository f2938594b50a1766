/** Work for every item of a list: short steps that yield to the event loop, or calls of which some run at once. */

import { limit, Slots } from './slots.js';
import { call, runAsync, runSync, type Work } from './work.js';
import { ITEMS_PER_YIELD } from './yielding.js';

/** Calls a function for every item. */
export function* forEachYielding<Item>(
  items: Iterable<Item>,
  visit: (item: Item) => void,
): Work<void> {
  let count = 0;
  for (const item of items) {
    if (count++ % ITEMS_PER_YIELD === 0) yield;
    visit(item);
  }
}

/** Maps every item. */
export function* mapYielding<Item, Result>(
  items: Iterable<Item>,
  map: (item: Item) => Result,
): Work<Result[]> {
  const results: Result[] = [];
  yield* forEachYielding(items, (item) => void results.push(map(item)));
  return results;
}

/** Filters items. */
export function* filterYielding<Item>(
  items: Iterable<Item>,
  isChosen: (item: Item) => boolean,
): Work<Item[]> {
  const chosen: Item[] = [];
  yield* forEachYielding(items, (item) => {
    if (isChosen(item)) chosen.push(item);
  });
  return chosen;
}

/** Leaves one of the thread pool's four threads to the rest of the program. */
const CALLS_AT_ONCE = 3;

/**
 * Does the work for every item: one after the other on this thread, or some at once, started in this order. After an
 * error no further item starts; those under way finish, and the error of the first failed item is thrown.
 */
export function* forEach<Item>(
  items: readonly Item[],
  workFor: (item: Item, index: number) => Work<unknown>,
): Work<void> {
  yield* call({
    sync: () => {
      for (const [index, item] of items.entries()) runSync(workFor(item, index));
    },
    async: async (signal) => {
      const run = async ([index, item]: [number, Item]): Promise<void> =>
        void (await runAsync(workFor(item, index), signal));
      await limit(items.entries(), new Slots(CALLS_AT_ONCE), run);
    },
  });
}
