import { expect, it } from 'vitest';
import {
  formatBytes,
  formatCount,
  formatInteger,
  formatShortCount,
  plural,
} from '../../src/inspect/format.js';

it('numbers have three digits and a unit', () => {
  const lengths = [0, 999, 1000, 9999, 12_345, 999_499, 999_500, 1.5e12, 2e18];
  expect(lengths.map(formatBytes)).toEqual([
    ...['0 B', '999 B', '1.00 kB', '10.0 kB', '12.3 kB', '999 kB', '1.00 MB', '1.50 TB'],
    '2000 PB',
  ]);
  expect(formatCount(1_235_814_400)).toBe('1,235,814,400 (1.24 B)');
  expect([999, 1e6].map(formatShortCount)).toEqual(['999', '1.00 M']);
  expect(formatCount(999)).toBe('999');
  expect(formatInteger(1e21)).toBe('1e+21');
  expect([plural(1, 'tensor'), plural(2000, 'tensor')]).toEqual(['1 tensor', '2,000 tensors']);
});
