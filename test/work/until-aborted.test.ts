import { describe, expect, test } from 'vitest';
import { itemsUntilAborted, untilAborted } from '../../src/work/until-aborted.js';

const never = new Promise<never>(() => {});

function aborting(): { signal: AbortSignal; abort: () => void; reason: Error } {
  const controller = new AbortController();
  const reason = new Error('enough');
  return { signal: controller.signal, abort: () => controller.abort(reason), reason };
}

describe('untilAborted', () => {
  test('settles as the promise does', async () => {
    for (const signal of [undefined, new AbortController().signal]) {
      expect(await untilAborted(3, signal)).toBe(3);
      expect(await untilAborted(Promise.resolve(4), signal)).toBe(4);
      await expect(untilAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('no');
    }
  });

  test('ends with the signal, before and after', async () => {
    const { signal, abort, reason } = aborting();
    const waiting = untilAborted(never, signal);
    abort();
    await expect(waiting).rejects.toBe(reason);
    await expect(untilAborted(never, signal)).rejects.toBe(reason);
    await expect(untilAborted(Promise.reject(new Error('unheard')), signal)).rejects.toBe(reason);
  });
});

describe('itemsUntilAborted', () => {
  /** Gives 1, 2, …, and notes how it is ended. */
  function counting(log: string[], next = async (value: number): Promise<number> => value) {
    let value = 0;
    return {
      [Symbol.asyncIterator]: () => ({
        next: async () => ({ done: false as const, value: await next(++value) }),
        return: async () => {
          log.push('return');
          return { done: true as const, value: undefined };
        },
      }),
    };
  }

  test('are those of sync and async iterables, promises resolved', async () => {
    async function* generate(): AsyncGenerator<number> {
      yield 1;
      yield 2;
    }
    for (const items of [generate(), [1, 2], [Promise.resolve(1), 2]]) {
      const found: number[] = [];
      for await (const item of itemsUntilAborted<number | Promise<number>>(items, undefined)) {
        found.push(item);
      }
      expect(found).toEqual([1, 2]);
    }
  });

  test('one that gives no objects is refused, and not closed', async () => {
    for (const given of [undefined, null, 5]) {
      const log: string[] = [];
      const items = {
        [Symbol.iterator]: () => ({ next: () => given, return: () => log.push('return') }),
      };
      const found = itemsUntilAborted(items as unknown as Iterable<number>, undefined).next();
      await expect(found).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE' });
      expect(log).toEqual([]);
    }
  });

  test('one that is left early is closed, and waited for', async () => {
    const log: string[] = [];
    for await (const item of itemsUntilAborted(counting(log), undefined)) if (item === 3) break;
    expect(log).toEqual(['return']);
    const failing = async (): Promise<void> => {
      for await (const _ of itemsUntilAborted(counting(log), undefined)) throw new Error('body');
    };
    await expect(failing()).rejects.toThrow('body');
    expect(log).toEqual(['return', 'return']);
  });

  test('one that throws is not closed again', async () => {
    const log: string[] = [];
    const items = itemsUntilAborted(
      counting(log, () => Promise.reject(new Error('disk'))),
      undefined,
    );
    await expect(items.next()).rejects.toThrow('disk');
    expect(log).toEqual([]);
  });

  test('an abort ends one that never gives its next item', async () => {
    const { signal, abort, reason } = aborting();
    const log: string[] = [];
    const items = itemsUntilAborted(
      counting(log, (value) => (value < 2 ? Promise.resolve(value) : never)),
      signal,
    );
    expect(await items.next()).toEqual({ done: false, value: 1 });
    const second = items.next();
    abort();
    await expect(second).rejects.toBe(reason);
    expect(log).toEqual(['return']);
  });

  test('after an abort nobody waits for it to close, and the reason stays', async () => {
    const { signal, abort, reason } = aborting();
    const endings = [
      () => never,
      () => Promise.reject(new Error('at the end')),
      () => {
        throw new Error('at the end');
      },
    ];
    abort();
    for (const end of endings) {
      const items = { [Symbol.asyncIterator]: () => ({ next: () => never, return: end }) };
      await expect(itemsUntilAborted(items, signal).next()).rejects.toBe(reason);
    }
  });
});
