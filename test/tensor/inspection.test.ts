import { inspect } from 'node:util';
import { expect, test } from 'vitest';
import { parse } from '../support/api.js';
import { fileBytes } from '../support/make-file.js';

test('a tensor shows what it is, and only its name where it is too deep', () => {
  const tensor = parse(fileBytes([{ name: 't', dtype: 'U8', shape: [2] }])).getTensor('t');
  const options = { breakLength: Number.POSITIVE_INFINITY };
  expect(inspect(tensor, options)).toBe(
    "Tensor { name: 't', dtype: 'U8', shape: [ 2 ], elementCount: 2, byteLength: 2 }",
  );
  expect(inspect({ tensor }, { ...options, depth: 1 })).toContain("tensor: Tensor { name: 't', ");
  expect(inspect({ tensor }, { ...options, depth: 0 })).toBe('{ tensor: [Tensor] }');
});
