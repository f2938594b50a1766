/** Signals of work that has several reasons to end. */

import { whenAborted } from '../platform/transfer/abort-listeners.js';
import { untilAborted } from '../platform/transfer/until-aborted.js';
import { limit, Slots } from '../tensor/pieces.js';

/**
 * Does work with a signal that is aborted when one of the given ones is, by the work itself, and as soon as
 * the work has settled: of requests that ran beside each other, one that fails can end the others. Leaves no
 * listeners behind, as `AbortSignal.any` does on a signal that lives long.
 *
 * @throws The reason of the abort, whatever the work made of it
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
 * What `work` gives for every item, in the order of the items, so many at once. The first that fails ends the others;
 * the promise settles when none is under way any more.
 *
 * @throws What the work threw first; the signal's reason
 */
export async function ofEach<Item, Result>(
  items: Iterable<Item>,
  atOnce: number,
  work: (item: Item, signal: AbortSignal) => Promise<Result>,
  signal: AbortSignal,
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

/** A call that several callers wait for. It is aborted when the last of them has given up. */
export class SharedCall<Value> {
  readonly #scope = new AbortController();
  readonly #result: Promise<Value>;
  #waiting = 0;

  constructor(call: (signal: AbortSignal) => Promise<Value>) {
    this.#result = call(this.#scope.signal);
  }

  /** Whether everybody has given up: whoever wants the value now needs another call. */
  get isAbandoned(): boolean {
    return this.#scope.signal.aborted;
  }

  /** What the call resolves with; rejects as soon as the caller's own signal is aborted. */
  async wait(signal: AbortSignal): Promise<Value> {
    this.#waiting++;
    try {
      return await untilAborted(this.#result, signal);
    } finally {
      this.#waiting--;
      if (this.#waiting === 0) this.#scope.abort();
    }
  }
}
