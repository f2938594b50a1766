/** Formats of weights as data, and their readers. */
import { describe, expect, test } from 'vitest';
import { FORMAT_READERS } from '../../benchmarks/children/format-readers.js';
import { FORMATS, SAFETENSORS } from '../../benchmarks/formats.js';
import { refuseOtherBytes } from '../../benchmarks/readers.js';
import { textOf } from '../support/source-tree.js';

describe('readers of formats', () => {
  test('have names of their own', () => {
    const names = FORMATS.map(({ driver }) => driver.name);
    expect(new Set(names).size).toBe(names.length);
  });

  test('are known to their program, and their packages to the package of the rivals', () => {
    const manifest: { optionalDependencies: object } = JSON.parse(
      textOf('benchmarks/package.json'),
    );
    for (const { driver } of FORMATS) {
      expect(FORMAT_READERS).toHaveProperty([driver.method]);
      for (const name of driver.packages)
        expect(manifest.optionalDependencies).toHaveProperty([name]);
    }
  });

  test('that saw other bytes than this package have a reason and no results', () => {
    const result = { open: 0, firstTensor: 0, handedOut: 0, everyByte: 1, bytes: 8 };
    const rows = FORMATS.slice(0, 3).map(({ driver }, index) => ({
      driver,
      results: [{ ...result, checksum: index < 2 ? 'aa' : 'bb' }],
      reason: undefined,
    }));
    const kept = refuseOtherBytes(rows, [SAFETENSORS.driver]);
    expect(kept.map(({ results }) => results.length)).toEqual([1, 1, 0]);
  });
});
