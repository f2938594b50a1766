/** What pickles of 48 MiB cost that repeat an opcode. */
import { expect, it } from 'vitest';
import { measureInChild } from '../../support/run-child.js';

interface Cost {
  readonly code: string;
  /** Processor time of reading, and of a scan. */
  readonly milliseconds: number;
  readonly scanMilliseconds: number;
  readonly byteLength: number;
  readonly problem?: string;
}

it.concurrent.each([
  ['values', 'N'],
  ['marks', '('],
  ['lists', ']'],
  ['tuples', '\x85'],
  ['copies of a value', '2'],
  ['values that are dropped', 'N0'],
  ['lists of one item', ']Na0'],
  ['dicts of one item', '}U\x01aNs0'],
  ['dicts with odd keys', '}K\x01NsNNs0'],
  ['memoized values', 'Nq\x010'],
  ['short texts', 'U\x01a0'],
  ['large integers', `\x8a\xff${'\x7f'.repeat(255)}0`],
])('a flood of %s ends within a second and 200 MB', async (_, repeated) => {
  const found = await measureInChild<Cost>('foreign/pickle/children/costly.mjs', [
    Buffer.from(repeated, 'latin1').toString('hex'),
  ]);
  expect(found.code).toMatch(/INVALID_PICKLE|FOREIGN_LIMIT/);
  expect(found.problem).toBeDefined();
  expect(found.byteLength).toBeLessThan(200 * 2 ** 20);
  // Slower machines than those that the limits are for take longer than the second.
  expect(found.milliseconds).toBeLessThan(3000);
  expect(found.scanMilliseconds).toBeLessThan(3000);
});
