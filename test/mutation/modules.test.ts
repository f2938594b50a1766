import { expect, test } from 'vitest';
import { filesBelow } from '../support/source-tree.js';
import { rooms, sourcesOf, testsOf } from './modules.mjs';

test('every source but the entries is in one room, and every room has tests', () => {
  const sources = filesBelow('src').filter((path) => /^src\/.+\/.+\.ts$/.test(path));
  expect(rooms().flatMap(sourcesOf).toSorted()).toEqual(sources.toSorted());
  expect(rooms().filter((room) => testsOf(room).length === 0)).toEqual([]);
});
