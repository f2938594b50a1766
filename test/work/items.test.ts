import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { filterYielding, forEach, forEachYielding, mapYielding } from '../../src/work/items.js';
import { call, runAsync, runSync, type Work } from '../../src/work/work.js';
import { ITEMS_PER_YIELD } from '../../src/work/yielding.js';

const numbersTo = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

describe('work for items', () => {
  test.each([
    [0, 0],
    [1, 1],
    [256, 1],
    [257, 2],
    [512, 2],
    [513, 3],
  ])('yields for %i items %i times, and takes them in order', (count, yields) => {
    const items = numbersTo(count);
    const done: number[] = [];
    const pauses: number[] = [];
    const work = forEachYielding(items, (item) => void done.push(item));
    while (work.next().done !== true) pauses.push(done.length);
    expect(pauses).toEqual(numbersTo(yields).map((index) => index * 256));
    expect(done).toEqual(items);
    expect(ITEMS_PER_YIELD).toBe(256);
  });

  test('returns results, or the chosen items', () => {
    const items = new Set(numbersTo(600));
    expect(runSync(mapYielding(items, (item) => item * 2))).toEqual([...items].map((i) => i * 2));
    const chosen = runSync(filterYielding(items, (item) => item % 100 === 7));
    expect(chosen).toEqual([7, 107, 207, 307, 407, 507]);
  });
});

describe('forEach', () => {
  const items = [0, 1, 2, 3, 4, 5, 6, 7];

  test('does all, begun in order, some at once on the pool', async () => {
    const done: number[] = [];
    let most = 0;
    let running = 0;
    const work = (): Work<void> =>
      forEach(items, (item, index) =>
        call({
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
    runSync(work());
    await runAsync(work(), undefined);
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
    const work = (): Work<void> =>
      forEach(items, (item) =>
        call({
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
    expect(() => runSync(work())).toThrow(new Error(`${first}`));
    await expect(runAsync(work(), undefined)).rejects.toThrow(new Error(`${first}`));
    expect(running).toBe(0);
    expect(begun.length).toBeLessThan(first + 4);
  });
});
