import { expect, test } from 'vitest';
import { nearNames } from '../../src/errors/near-names.js';

test('a forgotten prefix, another case, another number', () => {
  const names = ['model.norm.weight', 'model.layers.0.mlp.weight', 'lm_head.weight'];
  expect(nearNames('norm.weight', names)).toEqual(['model.norm.weight']);
  expect(nearNames('LM_HEAD.Weight', names)).toEqual(['lm_head.weight']);
  expect(nearNames('model.layers.9.mlp.weight', names)).toEqual(['model.layers.0.mlp.weight']);
  expect(nearNames('vision', names)).toEqual([]);
  expect(nearNames('', names)).toEqual([]);
});

test('the best three, best first', () => {
  const names = ['layers.1', 'layers.2', 'layers.12x', 'layers.3', 'other'];
  expect(nearNames('layers.12', names)).toEqual(['layers.12x', 'layers.1', 'layers.2']);
});

test('long names cost nothing', () => {
  expect(nearNames('x'.repeat(300), ['x'.repeat(299)])).toEqual([]);
  expect(nearNames('abc', ['x'.repeat(10 ** 6), 'abd'])).toEqual(['abd']);
});

test('names of 200 characters are compared, longer ones are not', () => {
  const [kept, long] = ['x'.repeat(200), 'x'.repeat(201)];
  expect(nearNames(kept, [long, kept])).toEqual([kept]);
  expect(nearNames(long, [kept, long])).toEqual([]);
});

test('the first and the last character count as all others do', () => {
  expect(nearNames('ab', ['xb', 'ax'])).toEqual([]);
  expect(nearNames('abc', ['xbc', 'abx', 'xbx'])).toEqual(['xbc', 'abx']);
  // No character counts for both ends.
  expect(nearNames('aaaa', ['aa'])).toEqual([]);
  expect(nearNames('abcde', ['abc', 'cde', 'ade', 'ab'])).toEqual(['abc', 'cde', 'ade']);
});

test('looks at a bounded number of names', () => {
  let looked = 0;
  function* endless(): Generator<string> {
    for (;;) yield `name ${looked++}`;
  }
  expect(nearNames('x', endless())).toEqual([]);
  expect(looked).toBeLessThan(50_000);
});
