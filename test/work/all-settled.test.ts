import { expect, it } from 'vitest';
import { allSettled } from '../../src/work/all-settled.js';

it('throws the first error when all work has ended', async () => {
  let end = (): void => {};
  const slow = new Promise<void>((resolve) => {
    end = resolve;
  });
  const seen: string[] = [];
  const all = allSettled([
    slow.then(() => seen.push('written')),
    Promise.reject(new Error('first')),
    Promise.reject(new Error('second')),
  ]).catch(({ message }: Error) => seen.push(message));
  await new Promise((resolve) => setImmediate(resolve));
  expect(seen).toEqual([]);
  end();
  await all;
  expect(seen).toEqual(['written', 'first']);
});
