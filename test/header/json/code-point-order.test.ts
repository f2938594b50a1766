import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  compareCodePoints,
  sortByName,
  sortByNameYielding,
} from '../../../src/header/json/code-point-order.js';
import { runSync } from '../../../src/work/work.js';
import { anyText } from '../../support/any-text.js';
import { Random } from '../../support/random.js';

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

describe('sortByNameYielding', () => {
  const random = new Random(20261130, 0);
  const items = Array.from({ length: 50_000 }, (_, number) => ({
    own: `${random.below(30_000)}${random.chance(0.001) ? '😀' : ''}`,
    number,
  }));
  const names = ({ own }: { readonly own: string }): string => own;

  test.each([0, 1, 8191, 8192, 8193, 16_385, 24_576, 40_000, 50_000])(
    'sorts %i items, and keeps the order of equal ones',
    (count) => {
      for (const part of [
        items.slice(0, count),
        items.slice(0, count).filter(({ own }) => !own.endsWith('😀')),
        items.slice(0, count).sort((a, b) => compareCodePoints(b.own, a.own)),
      ]) {
        const expected = part.slice();
        sortByName(expected, names);
        runSync(sortByNameYielding(part, names));
        expect(part).toEqual(expected);
      }
    },
  );

  test('yields at least once for 8,192 comparisons or a run', () => {
    const work = sortByNameYielding(items.slice(), names);
    let yields = 0;
    for (let next = work.next(); next.done !== true; next = work.next()) yields++;
    // Seven runs, then three rounds of merging.
    expect(yields).toBeGreaterThanOrEqual(1 + 7 + 3 * 7);
  });
});
