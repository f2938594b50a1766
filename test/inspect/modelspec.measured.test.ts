/** The cost of untrusted metadata. */
import { expect, test } from 'vitest';
import { thumbnailOf } from '../../src/inspect/modelspec.js';
import { measured } from '../support/processor-cost.mjs';

test('a long text that is no base64 costs less than a second of processor time', () => {
  const text = `data:image/png;base64,${' '.repeat(2 ** 22)}!`;
  const cost = measured(() => thumbnailOf(text));
  expect(cost.result).toBeNull();
  expect(cost.milliseconds).toBeLessThan(1000);
});
