import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareCodePoints, sortByName } from '../../../src/header/json/code-point-order.js';
import { anyText } from '../../support/any-text.js';

/** Many equal beginnings, and characters on both sides of the surrogates. */
const text = fc.oneof(
  anyText(),
  fc
    .array(fc.constantFrom('a', 'b', '\ud7ff', '\ue000', '\ufb01', '\uffff', '😀', '𐀀'))
    .map((parts) => parts.join('')),
);

function compareBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

describe('compareCodePoints', () => {
  test('is the order of the UTF-8 bytes', () => {
    fc.assert(
      fc.property(text, text, (a, b) => {
        expect(Math.sign(compareCodePoints(a, b))).toBe(compareBytes(a, b));
        expect(compareCodePoints(a, a)).toBe(0);
      }),
      { numRuns: 2000 },
    );
  });

  test('is not the order of UTF-16', () => {
    expect('😀' < 'ﬁ').toBe(true);
    expect(compareCodePoints('😀', 'ﬁ')).toBeGreaterThan(0);
  });
});

describe('sortByName', () => {
  test.each([
    ['with surrogates', text],
    ['without', anyText().filter((name) => !/[\ud800-\udfff]/.test(name))],
  ])('sorts names %s', (_, name) => {
    fc.assert(
      fc.property(fc.array(name), (names) => {
        const items = names.map((own) => ({ own }));
        sortByName(items, ({ own }) => own);
        expect(items.map(({ own }) => own)).toEqual([...names].sort(compareBytes));
      }),
    );
  });
});
