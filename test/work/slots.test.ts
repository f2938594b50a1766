import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { limit, Slots } from '../../src/work/slots.js';

async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
}

describe('limit', () => {
  test('begins all in order, and never more than its width at once, however many share it', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.nat(2), { maxLength: 12 }), { maxLength: 3 }),
        fc.integer({ min: 1, max: 4 }),
        async (lists, width) => {
          const slots = new Slots(width);
          let underWay = 0;
          await Promise.all(
            lists.map(async (list) => {
              const begun: number[] = [];
              await limit(list.entries(), slots, async ([i, count]) => {
                begun.push(i);
                expect(++underWay).toBeLessThanOrEqual(width);
                await turns(count);
                underWay--;
              });
              expect(begun).toEqual([...list.keys()]);
            }),
          );
          expect(underWay).toBe(0);
        },
      ),
      { numRuns: 50 },
    );
  });

  test('stops after the first error, and waits for what is under way', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(3), { minLength: 1, maxLength: 15 }),
        fc.nat(),
        fc.integer({ min: 1, max: 4 }),
        async (list, bad, width) => {
          const failing = bad % list.length;
          const reason = new Error('no');
          let underWay = 0;
          let hasFailed = false;
          const work = async ([i, count]: [number, number]): Promise<void> => {
            expect(hasFailed).toBe(false);
            underWay++;
            await turns(count);
            underWay--;
            if (i !== failing) return;
            hasFailed = true;
            throw reason;
          };
          await expect(limit(list.entries(), new Slots(width), work)).rejects.toBe(reason);
          expect(underWay).toBe(0);
        },
      ),
      { numRuns: 50 },
    );
  });

  test('begins nothing after an abort, waits for what is under way, and rejects with the reason', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    let [begun, done] = [0, 0];
    const working = limit(
      [1, 2, 3, 4, 5, 6],
      new Slots(2),
      async () => {
        if (++begun === 3) controller.abort(reason);
        await turns(2);
        done++;
      },
      controller.signal,
    );
    await expect(working).rejects.toBe(reason);
    expect([begun, done]).toEqual([3, 3]);
    await expect(limit([], new Slots(1), async () => {}, AbortSignal.abort(reason))).rejects.toBe(
      reason,
    );
  });

  test('gives its slots back after an error of the items', async () => {
    const slots = new Slots(2);
    const items = (function* () {
      yield 1;
      throw new Error('no item');
    })();
    await expect(limit(items, slots, async () => {})).rejects.toThrow('no item');
    let begun = 0;
    await limit([1, 2, 3], slots, async () => void begun++);
    expect(begun).toBe(3);
  });
});
