import { expect, test } from 'vitest';
import { filesBelow } from '../support/source-tree.js';
import { directories, sourcesOf, testsOf } from './directories.mjs';

test('every source but the entries is in one directory, and every directory has tests', () => {
  const sources = filesBelow('src').filter((path) => /^src\/.+\/.+\.ts$/.test(path));
  expect(directories().flatMap(sourcesOf).toSorted()).toEqual(sources.toSorted());
  expect(directories().filter((directory) => testsOf(directory).length === 0)).toEqual([]);
});
