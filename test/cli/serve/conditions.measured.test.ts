import { expect, it } from 'vitest';
import { requestedBytes } from '../../../src/cli/serve/conditions.js';
import { measured } from '../../support/processor-cost.mjs';

it('long lists of tags take no time', () => {
  const cost = measured(() => {
    for (const match of ['"x",'.repeat(4000), ' ,'.repeat(8000), `"${'x'.repeat(16_000)}`]) {
      expect(requestedBytes('GET', { 'if-match': match }, 100, '"a-1-z"')).toEqual({ status: 412 });
    }
  });
  expect(cost.milliseconds).toBeLessThan(500);
});
