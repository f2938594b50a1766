import { expect, test } from 'vitest';
import { mergeRanges } from '../../src/io/merge-ranges.js';

test('mergeRanges sorts, joins neighbours and near ones, drops empty ones', () => {
  const ranges = [
    { position: 500_000, byteLength: 10 },
    { position: 100, byteLength: 50 },
    { position: 900_000, byteLength: 0 },
    { position: 150, byteLength: 50 },
    { position: 100, byteLength: 10 },
    { position: 200 + 65_536, byteLength: 1 },
    { position: 201 + 2 * 65_536 + 1, byteLength: 1 },
  ];
  const given = structuredClone(ranges);
  expect(mergeRanges(ranges)).toEqual([
    { position: 100, byteLength: 65_637 },
    { position: 131_274, byteLength: 1 },
    { position: 500_000, byteLength: 10 },
  ]);
  expect(ranges).toEqual(given);
});
