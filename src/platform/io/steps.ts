/**
 * Work with system calls, written once for two ways: `runSync` runs all of it on this thread, `runAsync` hands the
 * calls to the thread pool and lets the event loop turn in between.
 */

import { setImmediate } from 'node:timers/promises';
import { provideTurns, turnWhenDue } from '../../header/json/turns.js';
import { limit, Slots } from '../../tensor/pieces.js';

// Loaded on first use: importing the package must load no module of Node.
provideTurns(() => setImmediate());

/** A call of the system in both ways. */
export interface Call<Result> {
  readonly sync: () => Result;
  readonly async: (signal: AbortSignal | undefined) => Promise<Result>;
  /**
   * True when the call opens or closes something. An abort does not end the work after such a call, which would lose
   * the open file, but after the next one.
   */
  readonly isKept?: boolean;
}

/** Work that yields its calls, or undefined where the event loop may turn, as `Slices` do. */
export type Steps<Result> = Generator<Call<unknown> | undefined, Result, unknown>;

/** A call as steps. */
export function* step<Result>(call: Call<Result>): Steps<Result> {
  return (yield call) as Result;
}

/** Quick work as steps: on this thread in both ways. */
export function here<Result>(work: () => Result): Steps<Result> {
  return step({ sync: work, async: async () => work() });
}

/** Does the work on this thread. */
export function runSync<Result>(steps: Steps<Result>): Result {
  let next = steps.next();
  while (next.done !== true) {
    let answer: unknown;
    try {
      answer = next.value?.sync();
    } catch (error) {
      next = steps.throw(error);
      continue;
    }
    next = steps.next(answer);
  }
  return next.value;
}

/**
 * Does the work with its calls on the thread pool. After an abort the call under way is finished, the
 * steps close what they have opened, and the promise rejects with `signal.reason`.
 */
export async function runAsync<Result>(
  steps: Steps<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  try {
    signal?.throwIfAborted();
    let next = steps.next();
    while (next.done !== true) {
      const call = next.value;
      let answer: unknown;
      try {
        if (call !== undefined) {
          answer = await call.async(signal);
        } else {
          const turn = turnWhenDue();
          if (turn !== undefined) await turn;
        }
        if (call?.isKept !== true) signal?.throwIfAborted();
      } catch (error) {
        next = steps.throw(error);
        continue;
      }
      next = steps.next(answer);
    }
    return next.value;
  } catch (error) {
    // Steps may have wrapped the reason in another error.
    signal?.throwIfAborted();
    throw error;
  }
}

/** Leaves one of the pool's four threads to the rest of the program. */
const STEPS_AT_ONCE = 3;

/**
 * Runs steps for every item: one after the other on this thread, or some at once on the pool, in this order. After an
 * error no further item begins; those under way end, and the error of the first failed item is thrown.
 */
export function* forEach<Item>(
  items: readonly Item[],
  stepsFor: (item: Item, index: number) => Steps<unknown>,
): Steps<void> {
  yield* step({
    sync: () => {
      for (const [index, item] of items.entries()) runSync(stepsFor(item, index));
    },
    async: async (signal) => {
      const work = ([index, item]: [number, Item]) => runAsync(stepsFor(item, index), signal);
      await limit(
        items.entries(),
        new Slots(STEPS_AT_ONCE),
        async (entry) => void (await work(entry)),
      );
    },
  });
}
