import { expect, test } from 'vitest';
import { DecodedNames } from '../../../src/header/json/decoded-names.js';
import { nameReader } from '../../../src/header/json/name-table.js';

test('names are found, named and sorted', () => {
  const names = new DecodedNames(
    new Map([
      ['b', 0],
      ['a', 1],
      ['', 2],
    ]),
  );
  expect(['a', 'b', '', 'c'].map((name) => names.find(name))).toEqual([1, 0, 2, -1]);
  for (const name of ['b', 'c']) {
    const reader = nameReader(name);
    expect(names.findString(reader, reader.readString())).toBe(names.find(name));
  }
  expect([0, 1, 2].map((entry) => names.name(entry))).toEqual(['b', 'a', '']);
  expect(names.names()).toEqual(['b', 'a', '']);
  expect(names.sortedNames()).toEqual(['', 'a', 'b']);
  // The caller may change what it got.
  expect(names.names()).not.toBe(names.names());
});

test('the names are listed once, however many are asked for by their entries', () => {
  let lists = 0;
  class CountedMap extends Map<string, number> {
    override keys(): MapIterator<string> {
      lists++;
      return super.keys();
    }
  }
  const names = new DecodedNames(new CountedMap([['a', 0]]));
  for (let i = 0; i < 3; i++) expect(names.name(0)).toBe('a');
  expect(lists).toBe(1);
});
