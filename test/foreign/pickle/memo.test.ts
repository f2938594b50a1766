import { expect, it } from 'vitest';
import { PickleMemo } from '../../../src/foreign/pickle/memo.js';
import { COST } from '../../../src/foreign/pickle/memory-costs.js';

it('gives back every value of a memo of many parts, by its number', () => {
  const memo = new PickleMemo<string>();
  const count = 2 ** 16 + 1;
  const wrong: number[] = [];
  for (let number = 0; number < count; number += 1) {
    if (memo.set(number, `value ${number}`) !== COST.memoItem) wrong.push(number);
  }
  expect(memo.size).toBe(count);
  for (let number = 0; number < count; number += 1) {
    if (memo.get(number) !== `value ${number}`) wrong.push(number);
  }
  expect(wrong).toEqual([]);
  expect(memo.get(count)).toBeUndefined();
});

it('puts a value in place of the one that had its number, which costs nothing', () => {
  const memo = new PickleMemo<string>();
  memo.set(0, 'first');
  expect(memo.set(0, 'second')).toBe(0);
  expect(memo.get(0)).toBe('second');
  expect(memo.size).toBe(1);
});

it('keeps values under numbers that were left out, at a price', () => {
  const memo = new PickleMemo<string>();
  memo.set(0, 'dense');
  expect(memo.set(2 ** 24, 'far')).toBe(COST.sparseItem);
  // After a gap the next number takes the slower way.
  expect(memo.set(1, 'near')).toBe(COST.sparseItem);
  expect([memo.get(0), memo.get(1), memo.get(2 ** 24)]).toEqual(['dense', 'near', 'far']);
  expect(memo.get(2)).toBeUndefined();
  expect(memo.size).toBe(3);
});
