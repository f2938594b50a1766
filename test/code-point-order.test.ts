import fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareCodePoints } from '../src/code-point-order.js';

test('is the order of the UTF-8 bytes', () => {
  const text = fc.string({ unit: 'binary' });
  const near = fc.array(
    fc.constantFrom('a', 'é', '\ud7ff', '\ue000', '\uff21', '😀', '\u{10ffff}'),
  );
  const name = fc.oneof(
    text,
    near.map((parts) => parts.join('')),
  );
  fc.assert(
    fc.property(name, name, (a, b) => {
      const expected = Buffer.compare(Buffer.from(a), Buffer.from(b));
      expect(Math.sign(compareCodePoints(a, b))).toBe(expected);
    }),
    { numRuns: 300 },
  );
});

test('sorts an astral character behind the last one of 16 bits', () => {
  expect(['😀', '\uff21', 'b', 'ab', 'a', ''].sort(compareCodePoints)).toEqual([
    '',
    'a',
    'ab',
    'b',
    '\uff21',
    '😀',
  ]);
});
