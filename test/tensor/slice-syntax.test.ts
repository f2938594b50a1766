import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { SliceIndex } from '../../src/tensor/slice.js';
import { planSlice } from '../../src/tensor/slice.js';
import { parseSlice } from '../../src/tensor/slice-syntax.js';

const fixture = new URL('../fixtures/numpy-slices.json', import.meta.url);
const cases: { shape: number[]; index: SliceIndex[]; text: string; result?: object }[] = JSON.parse(
  readFileSync(fixture, 'utf8'),
).cases;

function notationOf(item: SliceIndex): string {
  if (item === null) return ':';
  if (!Array.isArray(item)) return String(item);
  return item.map((part) => part ?? '').join(':');
}

describe('parseSlice', () => {
  it.each<[string, SliceIndex[]]>([
    ['', []],
    ['  ', []],
    [
      '0:10, ::2',
      [
        [0, 10],
        [null, null, 2],
      ],
    ],
    ['...', ['...']],
    ['-1', [-1]],
    ['-1,', [-1]],
    ['+3', [3]],
    ['007', [7]],
    [':, ::, : :', [null, null, null]],
    [
      ':5, 5:, 5::',
      [
        [null, 5],
        [5, null],
        [5, null],
      ],
    ],
    ['1 : 9 : -3', [[1, 9, -3]]],
    [' ... , 0 ', ['...', 0]],
    ['99999999999999999999:', [[1e20, null]]],
  ])('reads %j', (text, index) => {
    expect(parseSlice(text)).toEqual(index);
  });

  it('reads -0 as 0', () => {
    expect(Object.is(parseSlice('-0')[0], 0)).toBe(true);
  });

  it.each([
    ',',
    ',1',
    '1,,2',
    'a',
    '1.5',
    '1e3',
    '0x10',
    '1_0',
    '1:2:3:4',
    '..',
    '....',
    '. . .',
    'None',
    '[1]',
    '(1)',
    '1 2',
    '- 1',
    '--1',
    '1:a',
    '...:1',
    '١',
    '1;2',
  ])('refuses %j', (text) => {
    expect(() => parseSlice(text)).toThrow(
      expect.objectContaining({ name: 'RangeError', code: 'ERR_OUT_OF_RANGE' }),
    );
  });

  it('refuses what is not a string, and shows the notation', () => {
    expect(() => parseSlice(3 as unknown as string)).toThrow('slice must be a string, but is 3');
    expect(() => parseSlice('0;1')).toThrow(
      "slice must be in numpy's notation, such as '0:10, ::2, ..., -1', but is \"0;1\"",
    );
  });

  it('means what Python means by the same text', () => {
    for (const { shape, index, text, result } of cases) {
      if (result === undefined) continue;
      expect(planSlice(shape, parseSlice(text), 8)).toEqual(planSlice(shape, index, 8));
    }
  });

  it('reads back every index', () => {
    const bound = fc.option(fc.integer());
    const item: fc.Arbitrary<SliceIndex> = fc.oneof(
      fc.integer(),
      fc.constant(null),
      fc.constant('...' as const),
      fc.tuple(bound, bound).filter(([start, stop]) => start !== null || stop !== null),
      fc.tuple(bound, bound, fc.integer()),
    );
    fc.assert(
      fc.property(fc.array(item), fc.constantFrom(',', ', ', ' ,\t'), (index, comma) => {
        expect(parseSlice(index.map(notationOf).join(comma))).toEqual(index);
      }),
    );
  });
});
