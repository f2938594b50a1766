import { expect, test } from 'vitest';
import { cases } from '../header/header-cases.js';
import { expectOutcomes, LONGEST } from './recorded-outcomes.js';

test('the outcome is that of safeOpen for the longest case of header-cases.json', async () => {
  const long = cases.filter(({ name }) => name === LONGEST);
  expect(long).toHaveLength(1);
  await expectOutcomes(long);
});
