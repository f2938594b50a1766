/**
 * Work that may have to wait, written once: a generator that yields the calls whose answers it needs. `runSync` runs it
 * on this thread; `runAsync` sends the calls to the thread pool or the network, and yields to the event loop.
 */

import { yieldIfDue } from './yielding.js';

/** A call in both forms, or in the asynchronous one only when it has to wait for the network. */
export interface Call<Result> {
  readonly sync?: (() => Result) | undefined;
  readonly async: (signal: AbortSignal | undefined) => Promise<Result>;
  /**
   * True when the call opens or closes something. An abort does not end the work after such a call, which would lose
   * the open file, but after the next one.
   */
  readonly isKept?: boolean;
}

/** Work that yields its calls, or undefined where it may yield to the event loop. */
export type Work<Result> = Generator<Call<unknown> | undefined, Result, unknown>;

/** A call as work. */
export function* call<Result>(request: Call<Result>): Work<Result> {
  return (yield request) as Result;
}

/** A short function as work: called on this thread in both forms. */
export function immediate<Result>(run: () => Result): Work<Result> {
  return call({ sync: run, async: async () => run() });
}

/**
 * Does the work on this thread.
 *
 * @throws TypeError `ERR_INVALID_STATE` when the work needs a call that has no synchronous form
 */
export function runSync<Result>(work: Work<Result>): Result {
  let next = work.next();
  while (next.done !== true) {
    let answer: unknown;
    try {
      if (next.value !== undefined) answer = syncOf(next.value)();
    } catch (error) {
      next = work.throw(error);
      continue;
    }
    next = work.next(answer);
  }
  return next.value;
}

function syncOf({ sync }: Call<unknown>): () => unknown {
  if (sync !== undefined) return sync;
  throw Object.assign(
    new TypeError('a remote tensor has to be fetched: use the asynchronous method'),
    { code: 'ERR_INVALID_STATE' },
  );
}

/**
 * Does the work with its calls in their asynchronous form, and yields to the event loop between them. After an abort
 * the call under way finishes, the work closes what it has opened, and the promise rejects with `signal.reason`.
 */
export async function runAsync<Result>(
  work: Work<Result>,
  signal: AbortSignal | undefined,
): Promise<Result> {
  try {
    signal?.throwIfAborted();
    let next = work.next();
    while (next.done !== true) {
      const request = next.value;
      let answer: unknown;
      try {
        if (request !== undefined) {
          answer = await request.async(signal);
        } else {
          const pause = yieldIfDue();
          if (pause !== undefined) await pause;
        }
        if (request?.isKept !== true) signal?.throwIfAborted();
      } catch (error) {
        next = work.throw(error);
        continue;
      }
      next = work.next(answer);
    }
    return next.value;
  } catch (error) {
    // The work may have wrapped the reason in another error.
    signal?.throwIfAborted();
    throw error;
  }
}
