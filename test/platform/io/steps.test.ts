import { setImmediate } from 'node:timers/promises';
import { describe, expect, test, vi } from 'vitest';
import { indexSlices } from '../../../src/file/shards/checkpoint-index.js';
import { parseStart } from '../../../src/header/header.js';
import {
  type Call,
  forEach,
  here,
  runAsync,
  runSync,
  type Steps,
  step,
} from '../../../src/platform/io/steps.js';
import { fileBytes } from '../../support/make-file.js';

const reason = new Error('enough');

/** A call that returns its name and whether it was synchronous. */
function call(name: string, isKept = false): Call<string> {
  return { sync: () => `${name} here`, async: async () => `${name} on the pool`, isKept };
}

function failing(error: Error): Steps<never> {
  return step<never>({
    sync: () => {
      throw error;
    },
    async: () => Promise.reject(error),
  });
}

function* bothCalls(): Steps<string[]> {
  const first = yield* step(call('one'));
  yield;
  return [first, yield* step(call('two')), yield* here(() => 'three')];
}

describe('steps', () => {
  test('get the answers of their calls, in both ways', async () => {
    expect(runSync(bothCalls())).toEqual(['one here', 'two here', 'three']);
    const onPool = ['one on the pool', 'two on the pool', 'three'];
    expect(await runAsync(bothCalls(), undefined)).toEqual(onPool);
  });

  test('catch the errors of their calls, in both ways', async () => {
    function* caught(): Steps<unknown> {
      try {
        return yield* failing(reason);
      } catch (error) {
        return [error, yield* step(call('then'))];
      }
    }
    expect(runSync(caught())).toEqual([reason, 'then here']);
    expect(await runAsync(caught(), undefined)).toEqual([reason, 'then on the pool']);
    expect(() => runSync(failing(reason))).toThrow(reason);
    await expect(runAsync(failing(reason), undefined)).rejects.toBe(reason);
  });
});

describe('an abort', () => {
  test('before the first step begins none', async () => {
    const begun = vi.fn();
    const signal = AbortSignal.abort(reason);
    await expect(runAsync(here(begun), signal)).rejects.toBe(reason);
    expect(begun).not.toHaveBeenCalled();
  });

  test.each([false, true])('during a call, one to be kept: %s, ends the steps', async (isKept) => {
    const controller = new AbortController();
    const log: unknown[] = [];
    function* steps(): Steps<void> {
      const opened = yield* step({
        sync: () => 'opened',
        async: async () => {
          controller.abort(reason);
          return 'opened';
        },
        isKept,
      });
      try {
        log.push(opened);
        log.push(yield* step(call('read')));
        log.push('not reached');
      } catch (error) {
        log.push(error, yield* step(call('close', true)));
        throw new Error('made of the reason', { cause: error });
      }
    }
    await expect(runAsync(steps(), controller.signal)).rejects.toBe(reason);
    expect(log).toEqual(isKept ? ['opened', reason, 'close on the pool'] : []);
  });
});

describe('turns of the event loop', () => {
  const names = Array.from({ length: 50_000 }, (_, i) => `layer.${i}.weight`);
  const index = new TextEncoder().encode(
    JSON.stringify({
      weight_map: Object.fromEntries(names.map((name) => [name, 'a.safetensors'])),
    }),
  );

  function parsing(count: number): Steps<unknown> {
    const file = fileBytes(
      names.slice(0, count).map((name) => ({ name, dtype: 'U8', shape: [1] })),
    );
    return parseStart(file.slice(0, -count), file.length, {});
  }

  // Later than any time so far, and it never goes back: the turns remember when the last one began.
  let now = performance.now() + 1e9;

  /** Counts turns until the steps are done, with a clock that goes on by a millisecond at every look. */
  async function turnsOf(steps: Steps<unknown>): Promise<number> {
    using _clock = vi.spyOn(performance, 'now').mockImplementation(() => now++);
    let turns = 0;
    let isDone = false;
    const counting = (async () => {
      for (; !isDone; turns++) await setImmediate();
    })();
    await runAsync(steps, undefined);
    isDone = true;
    await counting;
    return turns;
  }

  // The longer one is scanned.
  test.each([20_000, 50_000])('come while a header of %d tensors is parsed', async (count) => {
    expect(await turnsOf(parsing(count))).toBeGreaterThan(10);
  });

  test('come while an index is parsed', async () => {
    expect(await turnsOf(indexSlices(index, {}))).toBeGreaterThan(20);
  });

  test('are shared by all work under way', async () => {
    // Each would fill its own turn if it had a clock of its own.
    const alone = await turnsOf(parsing(20_000));
    const all = forEach([1, 2, 3], () => parsing(20_000));
    expect(await turnsOf(all)).toBeGreaterThan(2 * alone);
  });

  test('come for quick work only when it takes long', async () => {
    const before = await turnsOf(here(() => {}));
    const quick = function* (): Steps<void> {
      for (let i = 0; i < 3; i++) yield;
    };
    expect(await turnsOf(quick())).toBeLessThanOrEqual(before + 1);
  });
});

describe('forEach', () => {
  const items = [0, 1, 2, 3, 4, 5, 6, 7];

  test('does all, begun in order, some at once on the pool', async () => {
    const done: number[] = [];
    let most = 0;
    let running = 0;
    const steps = (): Steps<void> =>
      forEach(items, (item, index) =>
        step({
          sync: () => {
            done.push(item, index);
          },
          async: async () => {
            done.push(item, index);
            most = Math.max(most, ++running);
            await setImmediate();
            running--;
          },
        }),
      );
    runSync(steps());
    await runAsync(steps(), undefined);
    const inOrder = items.flatMap((item) => [item, item]);
    expect(done).toEqual([...inOrder, ...inOrder]);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThan(4);
  });

  test.each([
    [[1, 2], 1],
    [[2], 2],
    [[7], 7],
  ])('of the errors of %j throws the first, when nothing is under way', async (bad, first) => {
    let running = 0;
    const begun: number[] = [];
    const steps = (): Steps<void> =>
      forEach(items, (item) =>
        step({
          sync: () => {
            if (bad.includes(item)) throw new Error(`${item}`);
          },
          async: async () => {
            running++;
            begun.push(item);
            // The later ones fail sooner.
            for (let turn = item; turn < items.length; turn++) await setImmediate();
            running--;
            if (bad.includes(item)) throw new Error(`${item}`);
          },
        }),
      );
    expect(() => runSync(steps())).toThrow(new Error(`${first}`));
    await expect(runAsync(steps(), undefined)).rejects.toThrow(new Error(`${first}`));
    expect(running).toBe(0);
    expect(begun.length).toBeLessThan(first + 4);
  });
});
