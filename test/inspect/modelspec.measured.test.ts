/** The cost of untrusted metadata. */
import process from 'node:process';
import { expect, test } from 'vitest';
import { thumbnailOf } from '../../src/inspect/modelspec.js';

test('a long text that is no base64 costs less than a second of processor time', () => {
  const text = `data:image/png;base64,${' '.repeat(2 ** 22)}!`;
  const before = process.cpuUsage();
  expect(thumbnailOf(text)).toBeNull();
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1000).toBeLessThan(1000);
});
