/** How many tensors a pass over a model reads at a time. */
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { forEachAt } from '../../viewer/worker/layers.js';

async function mostAtOnce(count: number, isRequested: boolean, byteLength: number) {
  let [underWay, most] = [0, 0];
  const done: number[] = [];
  await forEachAt(count, isRequested, byteLength, async (at) => {
    most = Math.max(most, ++underWay);
    await setImmediate();
    underWay--;
    done.push(at);
  });
  expect(done.toSorted((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, at) => at));
  return most;
}

it.each([
  ['long ones of files one after the other', 9, false, 9 * 2 ** 30, 1],
  ['some long ones of a server', 9, true, 9 * 2 ** 30, 6],
  ['as many as are 2 MiB', 100, true, 100 * 2 ** 16, 32],
  ['many short ones, which share requests', 1000, true, 1000 * 512, 64],
  ['many short ones of files', 1000, false, 1000 * 512, 64],
  ['empty ones', 3, true, 0, 3],
  ['nothing', 0, true, 0, 0],
] as const)('%s', async (_, count, isRequested, byteLength, expected) => {
  expect(await mostAtOnce(count, isRequested, byteLength)).toBe(expected);
});
