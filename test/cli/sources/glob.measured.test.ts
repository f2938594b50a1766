import { expect, it } from 'vitest';
import { namesTest } from '../../../src/cli/sources/glob.js';
import { measured } from '../../support/processor-cost.mjs';

it('takes no long time for any pattern', () => {
  const cost = measured(() => {
    expect(namesTest([`${'*a'.repeat(50)}b`])?.('a'.repeat(5000))).toBe(false);
  });
  expect(cost.milliseconds).toBeLessThan(2000);
});
