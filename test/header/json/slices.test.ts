import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import {
  filterInSlices,
  forEachInSlices,
  inOneGo,
  mapInSlices,
  SLICE_SIZE,
  type Slices,
} from '../../../src/header/json/slices.js';

const numbersTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

describe('work in slices', () => {
  test.each([
    [0, 0],
    [1, 1],
    [256, 1],
    [257, 2],
    [512, 2],
    [513, 3],
  ])('for %i items is %i slices, in the order of the items', (count, slices) => {
    const items = numbersTo(count);
    const done: number[] = [];
    const pauses: number[] = [];
    const work = forEachInSlices(items, (item) => void done.push(item));
    while (work.next().done !== true) pauses.push(done.length);
    expect(pauses).toEqual(numbersTo(slices).map((slice) => slice * 256));
    expect(done).toEqual(items);
    expect(SLICE_SIZE).toBe(256);
  });

  test('gives results, or what was chosen', () => {
    const items = new Set(numbersTo(600));
    expect(inOneGo(mapInSlices(items, (item) => item * 2))).toEqual([...items].map((i) => i * 2));
    const chosen = inOneGo(filterInSlices(items, (item) => item % 100 === 7));
    expect(chosen).toEqual([7, 107, 207, 307, 407, 507]);
  });
});

describe('work in turns', () => {
  let now = 0;
  let inTurns: typeof import('../../../src/header/json/slices.js').inTurns;

  beforeEach(async () => {
    // Modules of their own: these see other times than those of other tests.
    vi.resetModules();
    // An integer: sums of halves are exact.
    now = Math.ceil(performance.now());
    vi.spyOn(performance, 'now').mockImplementation(() => now);
    ({ inTurns } = await import('../../../src/header/json/slices.js'));
    const { turnWhenDue } = await import('../../../src/header/json/turns.js');
    await turnWhenDue();
  });

  afterEach(() => {
    vi.restoreAllMocks();
    vi.resetModules();
  });

  /** Five slices, each of so many milliseconds. */
  function* slicesOf(milliseconds: number, log: string[]): Slices<string> {
    for (let i = 0; i < 5; i++) {
      log.push(`slice ${i}`);
      now += milliseconds;
      yield;
    }
    return 'done';
  }

  test('is done at once when it is short', async () => {
    const log: string[] = [];
    const result = inTurns(slicesOf(0.9, log), new AbortController().signal);
    expect(log.length).toBe(5);
    expect(await result).toBe('done');
  });

  test('lets the event loop go on after 5 milliseconds', async () => {
    const log: string[] = [];
    const result = inTurns(slicesOf(2.5, log), new AbortController().signal);
    expect(log).toEqual(['slice 0', 'slice 1']);
    setImmediate(() => log.push('event'));
    expect(await result).toBe('done');
    expect(log.slice(2)).toEqual(['slice 2', 'slice 3', 'event', 'slice 4']);
  });

  test('ends with the reason of its signal', async () => {
    const log: string[] = [];
    const controller = new AbortController();
    const result = inTurns(slicesOf(5, log), controller.signal);
    controller.abort(new RangeError('enough'));
    await expect(result).rejects.toThrow('enough');
    expect(log).toEqual(['slice 0']);
  });
});
