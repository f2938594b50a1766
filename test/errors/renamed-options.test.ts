import { expect, test } from 'vitest';
import { requireOptions } from '../../src/errors/arguments.js';

test('an option of an earlier page fails with its new name, where the call has that', () => {
  expect(() => requireOptions({ maxDepth: 1 }, { limits: true })).toThrow(
    'unknown option "maxDepth"; it is limits.maxDepth now',
  );
  expect(() => requireOptions({ maxDepth: 1 }, { other: true })).toThrow(
    'unknown option "maxDepth"; the options are other',
  );
});
