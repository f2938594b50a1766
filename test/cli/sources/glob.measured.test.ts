import { expect, it } from 'vitest';
import { namesTest } from '../../../src/cli/sources/glob.js';
import { processorMilliseconds } from '../../support/processor-time.js';

it('takes no long time for any pattern', async () => {
  const taken = await processorMilliseconds(() => {
    expect(namesTest([`${'*a'.repeat(50)}b`])?.('a'.repeat(5000))).toBe(false);
  });
  expect(taken).toBeLessThan(2000);
});
