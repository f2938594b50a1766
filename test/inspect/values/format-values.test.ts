import { expect, it } from 'vitest';
import { formatValues, parse, serialize } from '../../support/api.js';

const tensor = parse(
  serialize({ t: { dtype: 'F32', shape: [3], data: Float32Array.of(1, -0.5, 10) } }),
).getTensor('t');

it('has one form for all parts', () => {
  expect(formatValues([tensor.slice([0, 2]), tensor.slice([2, 3])])).toEqual([
    [' 1. ', '-0.5'],
    ['10. '],
  ]);
});

it.each([
  ['a path', 'model.safetensors'],
  ['one tensor', tensor],
  ['nothing', undefined],
])('refuses %s', (_, parts) => {
  expect(() => formatValues(parts as never)).toThrow(
    expect.objectContaining({
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringContaining('parts must be an array of tensors, but is '),
    }),
  );
});
