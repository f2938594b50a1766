import { performance } from 'node:perf_hooks';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { nextTurn, turnWhenDue } from '../../../src/header/json/turns.js';

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
  vi.resetModules();
});

function workFor(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

describe('turnWhenDue', () => {
  test('is undefined until work has gone on for 5 ms, and then one turn for all', async () => {
    let now = performance.now() + 6;
    vi.spyOn(globalThis.performance, 'now').mockImplementation(() => now);
    await turnWhenDue();
    expect(turnWhenDue()).toBeUndefined();
    now += 6;
    const turn = turnWhenDue();
    expect(turn).toBeInstanceOf(Promise);
    expect(turnWhenDue()).toBe(turn);
    await turn;
    expect(turnWhenDue()).toBeUndefined();
  });

  test('is there from exactly 5 ms on', async () => {
    vi.resetModules();
    let now = 4.5;
    vi.spyOn(globalThis.performance, 'now').mockImplementation(() => now);
    const { turnWhenDue: due } = await import('../../../src/header/json/turns.js');
    expect(due()).toBeUndefined();
    now = 5;
    const first = due();
    expect(first).toBeInstanceOf(Promise);
    await first;
    now = 9.5;
    expect(due()).toBeUndefined();
    now = 10;
    expect(due()).toBeInstanceOf(Promise);
  });
});

describe('nextTurn', () => {
  test('lets go on what waits for the event loop', async () => {
    const log: string[] = [];
    setImmediate(() => log.push('event'));
    await nextTurn();
    await nextTurn();
    expect(log).toEqual(['event']);
  });

  test('in Node it comes also where timers were faked before', async () => {
    vi.resetModules();
    vi.stubGlobal('setImmediate', () => ({}));
    vi.stubGlobal('setTimeout', () => ({}));
    const { runAsync } = await import('../../../src/platform/io/steps.js');
    const steps = (function* () {
      yield undefined;
      workFor(6);
      yield undefined;
      return 'done';
    })();
    expect(await runAsync(steps, undefined)).toBe('done');
  });

  test('where nothing is provided it is a turn of timers', async () => {
    vi.resetModules();
    vi.stubGlobal('setImmediate', undefined);
    const { nextTurn: turn } = await import('../../../src/header/json/turns.js');
    await expect(turn()).resolves.toBeUndefined();
  });
});
