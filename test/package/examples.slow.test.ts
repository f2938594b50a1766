/** Every example of the pages and docstrings compiles as TypeScript. */
import { expect, it } from 'vitest';
import { typeErrors } from '../support/examples.js';
import { allExamples } from './all-examples.js';

it('examples have the right types', () => {
  expect(allExamples.length).toBeGreaterThan(100);
  expect(typeErrors(allExamples)).toEqual([]);
});
