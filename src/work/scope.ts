/** Signals for work with several reasons to end. */

import { whenAborted } from './abort-listeners.js';
import { limit, Slots } from './slots.js';
import { untilAborted } from './until-aborted.js';

/**
 * Does work with a signal that is aborted with any of the given ones, by the work itself, and once the work has
 * settled: a failed request can so end its siblings. Leaves no listeners behind, unlike `AbortSignal.any` on a
 * long-lived signal.
 *
 * @throws The reason of the abort, regardless of the work's error
 */
export async function withScope<Result>(
  signals: readonly (AbortSignal | undefined)[],
  work: (scope: AbortController) => Promise<Result>,
): Promise<Result> {
  const scope = new AbortController();
  const given = signals.filter((signal) => signal !== undefined);
  const abort = (): void => scope.abort(given.find((signal) => signal.aborted)?.reason);
  const ends = given.map((signal) => whenAborted(signal, abort));
  try {
    if (given.some((signal) => signal.aborted)) abort();
    scope.signal.throwIfAborted();
    return await work(scope);
  } catch (error) {
    scope.signal.throwIfAborted();
    throw error;
  } finally {
    for (const end of ends) end();
    scope.abort();
  }
}

/**
 * Maps every item, several at once, and keeps the order. The first failure ends the others; settles once none is
 * running.
 *
 * @throws The work's first error; the signal's reason
 */
export async function ofEach<Item, Result>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item, signal: AbortSignal) => Promise<Result>,
  signal: AbortSignal | undefined,
): Promise<Result[]> {
  const results: Result[] = [];
  await withScope([signal], async (scope) => {
    let count = 0;
    function* places(): Generator<[place: number, item: Item], void, void> {
      for (const item of items) yield [count++, item];
    }
    await limit(places(), new Slots(atOnce), async ([place, item]) => {
      try {
        results[place] = await work(item, scope.signal);
      } catch (error) {
        scope.abort(error);
        throw error;
      }
    });
  });
  return results;
}

/** A call shared by several callers. Aborted once the last caller has given up. */
export class SharedCall<Value> {
  readonly #scope = new AbortController();
  readonly #result: Promise<Value>;
  #waiting = 0;

  constructor(call: (signal: AbortSignal) => Promise<Value>) {
    this.#result = call(this.#scope.signal);
  }

  /** Whether all callers have given up: a new caller then needs a new call. */
  get isAbandoned(): boolean {
    return this.#scope.signal.aborted;
  }

  /** The value of the call; rejects as soon as the caller's own signal is aborted. */
  async wait(signal: AbortSignal | undefined): Promise<Value> {
    this.#waiting++;
    try {
      return await untilAborted(this.#result, signal);
    } finally {
      this.#waiting--;
      if (this.#waiting === 0) this.#scope.abort();
    }
  }
}
