import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { parseIndexYielding } from '../../src/file/shards/checkpoint-index.js';
import { parseStart } from '../../src/header/header.js';
import { forEach } from '../../src/work/items.js';
import { type Call, call, immediate, runAsync, runSync, type Work } from '../../src/work/work.js';
import { fileBytes } from '../support/make-file.js';

const reason = new Error('enough');

/** A call that returns its name and whether it was synchronous. */
function named(name: string, isKept = false): Call<string> {
  return { sync: () => `${name} here`, async: async () => `${name} on the pool`, isKept };
}

function failing(error: Error): Work<never> {
  return call<never>({
    sync: () => {
      throw error;
    },
    async: () => Promise.reject(error),
  });
}

function* bothCalls(): Work<string[]> {
  const first = yield* call(named('one'));
  yield;
  return [first, yield* call(named('two')), yield* immediate(() => 'three')];
}

describe('work', () => {
  test('gets the answers of its calls, in both ways', async () => {
    expect(runSync(bothCalls())).toEqual(['one here', 'two here', 'three']);
    const onPool = ['one on the pool', 'two on the pool', 'three'];
    expect(await runAsync(bothCalls(), undefined)).toEqual(onPool);
  });

  test('catches the errors of its calls, in both ways', async () => {
    function* caught(): Work<unknown> {
      try {
        return yield* failing(reason);
      } catch (error) {
        return [error, yield* call(named('then'))];
      }
    }
    expect(runSync(caught())).toEqual([reason, 'then here']);
    expect(await runAsync(caught(), undefined)).toEqual([reason, 'then on the pool']);
    expect(() => runSync(failing(reason))).toThrow(reason);
    await expect(runAsync(failing(reason), undefined)).rejects.toBe(reason);
  });

  test('gets an error instead of answers that only the network has, unless it can wait', async () => {
    const log: unknown[] = [];
    function* fetched(): Work<string> {
      try {
        return yield* call<string>({ async: async () => 'fetched' });
      } finally {
        log.push(yield* call(named('closed')));
      }
    }
    const error = { name: 'TypeError', code: 'ERR_INVALID_STATE' };
    expect(() => runSync(fetched())).toThrow(expect.objectContaining(error));
    expect(await runAsync(fetched(), undefined)).toBe('fetched');
    expect(log).toEqual(['closed here', 'closed on the pool']);
  });
});

describe('an abort', () => {
  test('before the first call keeps it from starting', async () => {
    const begun = vi.fn();
    const signal = AbortSignal.abort(reason);
    await expect(runAsync(immediate(begun), signal)).rejects.toBe(reason);
    expect(begun).not.toHaveBeenCalled();
  });

  test.each([false, true])('during a call, one to be kept: %s, ends the work', async (isKept) => {
    const controller = new AbortController();
    const log: unknown[] = [];
    function* work(): Work<void> {
      const opened = yield* call({
        sync: () => 'opened',
        async: async () => {
          controller.abort(reason);
          return 'opened';
        },
        isKept,
      });
      try {
        log.push(opened);
        log.push(yield* call(named('read')));
        log.push('not reached');
      } catch (error) {
        log.push(error, yield* call(named('close', true)));
        throw new Error('made of the reason', { cause: error });
      }
    }
    await expect(runAsync(work(), controller.signal)).rejects.toBe(reason);
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

  function parsing(count: number): Work<unknown> {
    const file = fileBytes(
      names.slice(0, count).map((name) => ({ name, dtype: 'U8', shape: [1] })),
    );
    return parseStart(file.slice(0, -count), file.length, {});
  }

  // Later than any time so far, and it never goes back: the turns remember when the last one began.
  let now = performance.now() + 1e9;

  /** Counts turns until the work is done, with a clock that goes on by a millisecond at every look. */
  async function turnsOf(work: Work<unknown>): Promise<number> {
    using _clock = vi.spyOn(Date, 'now').mockImplementation(() => now++);
    let turns = 0;
    let isDone = false;
    const counting = (async () => {
      for (; !isDone; turns++) await setImmediate();
    })();
    await runAsync(work, undefined);
    isDone = true;
    await counting;
    return turns;
  }

  // The longer one is scanned.
  test.each([20_000, 50_000])('come while a header of %d tensors is parsed', async (count) => {
    expect(await turnsOf(parsing(count))).toBeGreaterThan(10);
  });

  test('come while an index is parsed', async () => {
    expect(await turnsOf(parseIndexYielding(index, {}))).toBeGreaterThan(20);
  });

  test('are shared by all work under way', async () => {
    // Each would fill its own turn if it had a clock of its own.
    const alone = await turnsOf(parsing(20_000));
    const all = forEach([1, 2, 3], () => parsing(20_000));
    expect(await turnsOf(all)).toBeGreaterThan(2 * alone);
  });

  test('come for quick work only when it takes long', async () => {
    const before = await turnsOf(immediate(() => {}));
    const quick = function* (): Work<void> {
      for (let i = 0; i < 3; i++) yield;
    };
    expect(await turnsOf(quick())).toBeLessThanOrEqual(before + 1);
  });
});

describe('work that yields', () => {
  let now = 0;
  let run: typeof runAsync;

  beforeEach(async () => {
    // Modules of their own: these see other times than those of other tests.
    vi.resetModules();
    // An integer: sums of halves are exact.
    now = Math.ceil(performance.now());
    vi.spyOn(Date, 'now').mockImplementation(() => now);
    ({ runAsync: run } = await import('../../src/work/work.js'));
    const { yieldIfDue } = await import('../../src/work/yielding.js');
    await yieldIfDue();
  });

  afterEach(() => {
    vi.restoreAllMocks();
    vi.resetModules();
  });

  /** Five parts, each of so many milliseconds. */
  function* partsOf(milliseconds: number, log: string[]): Work<string> {
    for (let i = 0; i < 5; i++) {
      log.push(`part ${i}`);
      now += milliseconds;
      yield;
    }
    return 'done';
  }

  test('is done at once when it is short', async () => {
    const log: string[] = [];
    const result = run(partsOf(0.9, log), new AbortController().signal);
    expect(log.length).toBe(5);
    expect(await result).toBe('done');
  });

  test('lets the event loop go on after 5 milliseconds', async () => {
    const log: string[] = [];
    const result = run(partsOf(2.5, log), new AbortController().signal);
    expect(log).toEqual(['part 0', 'part 1']);
    void setImmediate().then(() => log.push('event'));
    expect(await result).toBe('done');
    expect(log.slice(2)).toEqual(['part 2', 'part 3', 'event', 'part 4']);
  });

  test('ends with the reason of its signal', async () => {
    const log: string[] = [];
    const controller = new AbortController();
    const result = run(partsOf(5, log), controller.signal);
    controller.abort(new RangeError('enough'));
    await expect(result).rejects.toThrow('enough');
    expect(log).toEqual(['part 0']);
  });
});
