/** How many tensors a pass over a model reads at a time. */
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { forEachAt } from '../../viewer/worker/layers.js';

async function atOnce(isRequested: boolean, byteLengths: readonly number[]) {
  let [running, most, bytes, mostBytes] = [0, 0, 0, 0];
  const done: number[] = [];
  const byteLengthAt = (at: number): number => byteLengths[at] as number;
  await forEachAt(byteLengths.length, isRequested, byteLengthAt, async (at) => {
    most = Math.max(most, ++running);
    bytes += byteLengthAt(at);
    mostBytes = Math.max(mostBytes, bytes);
    await setImmediate();
    running--;
    bytes -= byteLengthAt(at);
    done.push(at);
  });
  expect(done.toSorted((a, b) => a - b)).toEqual([...byteLengths.keys()]);
  return { most, mostBytes };
}

const equal = (count: number, byteLength: number): number[] =>
  Array.from({ length: count }, () => byteLength);

it.each([
  ['long ones of files one after the other', false, equal(9, 2 ** 30), 1],
  ['some long ones of a server', true, equal(9, 2 ** 30), 6],
  ['as many as are 2 MiB', true, equal(100, 2 ** 16), 32],
  ['many short ones, which share requests', true, equal(1000, 512), 64],
  ['many short ones of files', false, equal(1000, 512), 64],
  ['empty ones', true, equal(3, 0), 3],
  ['nothing', true, [], 0],
])('%s', async (_, isRequested, byteLengths, expected) => {
  expect((await atOnce(isRequested, byteLengths)).most).toBe(expected);
});

it('few long ones among short ones', async () => {
  const byteLengths = [...equal(500, 512), ...equal(64, 2 ** 24), ...equal(500, 512)];
  expect(await atOnce(false, byteLengths)).toEqual({ most: 64, mostBytes: 2 ** 24 });
  const { mostBytes } = await atOnce(true, byteLengths);
  expect(mostBytes).toBeLessThanOrEqual(6 * 2 ** 24 + 2 ** 21);
});

it('none after a failure', async () => {
  const begun: number[] = [];
  const work = async (at: number): Promise<void> => {
    begun.push(at);
    await setImmediate();
    if (at === 2) throw new Error('third');
  };
  await expect(forEachAt(9, false, () => 2 ** 30, work)).rejects.toThrow('third');
  await setImmediate();
  expect(begun).toEqual([0, 1, 2]);
});
