import { describe, expect, test } from 'vitest';
import { measureInChild, runChild } from '../../support/run-child.js';

const CHILD = 'platform/addon/children/lifetime.mjs';

describe('nothing is left behind', () => {
  test('dropped handles are looked for before there are too many', async () => {
    const { most, left } = await measureInChild<Record<string, number>>(CHILD, ['drop-and-turn']);
    process.stdout.write(`drop-and-turn: at most ${most} of 3000 handles alive\n`);
    expect(most).toBeLessThan(300);
    expect(left).toBe(0);
  });

  test('views keep the file mapped after a release, until they are collected', async () => {
    const expected = { read: 0, held: 1, after: 0, descriptors: 0 };
    expect(await measureInChild(CHILD, ['released-with-views'])).toEqual(expected);
  });
});

test('a worker that ends closes no descriptor but its own', async () => {
  expect(await measureInChild(CHILD, ['descriptors-of-a-worker'])).toBe(true);
});

test.each([
  ['exit-with-views', 0],
  ['process-exit', 3],
  ['detached-at-exit', 0],
])('%s ends with code %i', async (scenario, code) => {
  const result = await runChild(CHILD, [scenario]);
  expect(result).toEqual({ code, signal: null, stdout: '"done"\n', stderr: '' });
});
