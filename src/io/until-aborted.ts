/** Waiting for what a caller's code promises, which may never come, until a signal ends it. */

/** What is promised, or a rejection with `signal.reason`, whichever comes first. */
export async function untilAborted<Value>(
  value: Value | PromiseLike<Value>,
  signal: AbortSignal | undefined,
): Promise<Value> {
  if (signal === undefined) return value;
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    const settled = (): void => signal.removeEventListener('abort', abort);
    signal.addEventListener('abort', abort);
    // In any case: whoever has been left behind must not reject unheard.
    Promise.resolve(value).then(resolve, reject).finally(settled);
    if (signal.aborted) abort();
  });
}

/**
 * The items of an iterable, as `for await` has them, with every wait ended by the signal. Ending
 * before the last item ends the iterator too; after an abort nobody waits for that.
 */
export async function* itemsUntilAborted<Item>(
  items: AsyncIterable<Item> | Iterable<Item>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Awaited<Item>, void, void> {
  const iterator =
    Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  let isDone = false;
  // One that throws has ended itself.
  const next = async (): Promise<IteratorResult<Item>> => {
    let result: IteratorResult<Item> | undefined;
    try {
      result = await iterator.next();
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
