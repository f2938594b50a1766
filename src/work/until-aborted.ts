/** Waits for promises of the caller's code, which may never settle, until a signal ends the wait. */

import { argumentTypeError } from '../errors/arguments.js';
import { isAsyncIterable } from '../errors/brand-checks.js';
import { whenAborted } from './abort-listeners.js';

/** Resolves as the promise does, or rejects with `signal.reason`, whichever comes first. */
export async function untilAborted<Value>(
  value: Value | PromiseLike<Value>,
  signal: AbortSignal | undefined,
): Promise<Value> {
  if (signal === undefined) return value;
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    const settled = whenAborted(signal, abort);
    // Attach handlers even to an abandoned promise, or Node reports an unhandled rejection.
    Promise.resolve(value).then(resolve, reject).finally(settled);
    if (signal.aborted) abort();
  });
}

/**
 * Yields the items of an iterable like `for await`, except that the signal ends every wait. Leaving
 * before the last item closes the iterator, as `for await` does; after an abort without waiting for it.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for an iterator whose results are not objects; errors of the iterator;
 *   `signal.reason`
 */
export async function* itemsUntilAborted<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Awaited<Item>, void, void> {
  const iterator = isAsyncIterable(items)
    ? items[Symbol.asyncIterator]()
    : items[Symbol.iterator]();
  let isDone = false;
  // An iterator that throws, or returns a non-object, has closed itself.
  const next = async (): Promise<IteratorResult<Item>> => {
    let result: IteratorResult<Item> | undefined;
    try {
      const given = await iterator.next();
      if (Object(given) !== given) {
        throw argumentTypeError('the value of the iterator', 'an object', given);
      }
      result = given;
      return result;
    } finally {
      isDone = result === undefined || result.done === true;
    }
  };
  const end = async (): Promise<unknown> => iterator.return?.();
  try {
    for (;;) {
      const result = await untilAborted(next(), signal);
      if (result.done === true) return;
      yield await untilAborted(result.value, signal);
    }
  } finally {
    if (!isDone) await untilAborted(end(), signal);
  }
}
