import { performance } from 'node:perf_hooks';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { nextTurn, turnWhenDue } from '../../../src/header/json/turns.js';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

function workFor(milliseconds: number): void {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
}

describe('turnWhenDue', () => {
  test('is undefined until work has gone on for 5 ms, and then one turn for all', async () => {
    await turnWhenDue();
    expect(turnWhenDue()).toBeUndefined();
    workFor(6);
    const turn = turnWhenDue();
    expect(turn).toBeInstanceOf(Promise);
    expect(turnWhenDue()).toBe(turn);
    await turn;
    expect(turnWhenDue()).toBeUndefined();
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
