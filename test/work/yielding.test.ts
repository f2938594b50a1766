import { performance } from 'node:perf_hooks';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { yieldIfDue, yieldNow } from '../../src/work/yielding.js';

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  vi.resetModules();
});

function workFor(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

describe('yieldIfDue', () => {
  test('is undefined until work has gone on for 5 ms, and then one turn for all', async () => {
    let now = Date.now() + 6;
    vi.spyOn(Date, 'now').mockImplementation(() => now);
    await yieldIfDue();
    expect(yieldIfDue()).toBeUndefined();
    now += 6;
    const turn = yieldIfDue();
    expect(turn).toBeInstanceOf(Promise);
    expect(yieldIfDue()).toBe(turn);
    await turn;
    expect(yieldIfDue()).toBeUndefined();
  });

  test('is there from exactly 5 ms on', async () => {
    vi.resetModules();
    let now = 4;
    vi.spyOn(Date, 'now').mockImplementation(() => now);
    const { yieldIfDue: due } = await import('../../src/work/yielding.js');
    expect(due()).toBeUndefined();
    now = 5;
    const first = due();
    expect(first).toBeInstanceOf(Promise);
    await first;
    now = 9;
    expect(due()).toBeUndefined();
    now = 10;
    expect(due()).toBeInstanceOf(Promise);
  });

  test('is there after the clock was set back', async () => {
    let now = Date.now() + 6;
    vi.spyOn(Date, 'now').mockImplementation(() => now);
    await yieldIfDue();
    expect(yieldIfDue()).toBeUndefined();
    now -= 3_600_000;
    const turn = yieldIfDue();
    expect(turn).toBeInstanceOf(Promise);
    await turn;
    expect(yieldIfDue()).toBeUndefined();
    now += 5;
    expect(yieldIfDue()).toBeInstanceOf(Promise);
  });
});

describe('yieldNow', () => {
  test('lets the event loop run', async () => {
    const log: string[] = [];
    setImmediate(() => log.push('event'));
    await yieldNow();
    await yieldNow();
    expect(log).toEqual(['event']);
  });

  test('resolves in Node also where timers were faked before', async () => {
    vi.resetModules();
    vi.stubGlobal('setImmediate', () => ({}));
    vi.stubGlobal('setTimeout', () => ({}));
    await import('../../src/platform/io/file-calls.js');
    const { runAsync } = await import('../../src/work/work.js');
    const work = (function* () {
      yield undefined;
      workFor(6);
      yield undefined;
      return 'done';
    })();
    expect(await runAsync(work, undefined)).toBe('done');
  });

  test('waits for a message where there is no setImmediate', async () => {
    vi.resetModules();
    vi.stubGlobal('setImmediate', undefined);
    const { yieldNow: turn } = await import('../../src/work/yielding.js');
    await expect(turn()).resolves.toBeUndefined();
  });
});
