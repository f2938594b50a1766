/** The addon's functions for prefetching and loading, called directly. */
import { closeSync, fstatSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Addon, loadAddon, type Mapping } from '../../../src/platform/addon/load.js';
import { openRegularFile } from '../../../src/platform/io/opened-file.js';
import { runSync } from '../../../src/work/work.js';
import { writeTemporary } from '../../support/make-file.js';

const load = loadAddon();

describe.runIf('addon' in load)('the addon', () => {
  const { addon } = load as { addon: Addon };
  let mapping: Mapping;
  let byteLength: number;

  beforeEach(() => {
    const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [20_000] }]);
    const file = runSync(openRegularFile(path, path));
    ({ byteLength } = file);
    mapping = addon.mapFile(file.fd, byteLength, true);
    closeSync(file.fd);
  });

  afterEach(() => addon.release(mapping));

  const noMapping = {} as Mapping;

  test.each([
    ['mapping', 'x', 'ERR_INVALID_ARG_TYPE'],
    ['byteOffset', -1, 'ERR_OUT_OF_RANGE'],
    ['byteOffset', 0.5, 'ERR_OUT_OF_RANGE'],
    ['byteOffset', 30_000, 'ERR_OUT_OF_RANGE'],
    ['byteOffset', Number.NaN, 'ERR_OUT_OF_RANGE'],
    ['byteOffset', '0', 'ERR_INVALID_ARG_TYPE'],
    ['byteLength', 0, 'ERR_OUT_OF_RANGE'],
    ['byteLength', 30_000, 'ERR_OUT_OF_RANGE'],
    ['byteLength', Number.POSITIVE_INFINITY, 'ERR_OUT_OF_RANGE'],
    ['byteLength', undefined, 'ERR_INVALID_ARG_TYPE'],
  ])('refuses as %s: %j', async (name, value, code) => {
    const range = { mapping, byteOffset: 0, byteLength: 1, [name]: value } as {
      mapping: Mapping;
      byteOffset: number;
      byteLength: number;
    };
    const args = [range.mapping, range.byteOffset, range.byteLength] as const;
    const message = expect.stringContaining(`${name} must be`);
    await expect(addon.populate(...args)).rejects.toMatchObject({ code, message });
    expect(() => addon.residentBytes(...args)).toThrow(expect.objectContaining({ code, message }));
  });

  test('populates and counts any range, at any byte', async () => {
    for (const [begin, end] of [
      [0, 1],
      [4095, 4097],
      [0, byteLength],
      [byteLength - 1, byteLength],
    ] as const) {
      await expect(addon.populate(mapping, begin, end - begin)).resolves.toBeUndefined();
      const resident = addon.residentBytes(mapping, begin, end - begin);
      if (resident !== null) expect(resident).toBe(end - begin);
    }
  });

  test('populates many ranges', async () => {
    const pages = Array.from({ length: 1024 }, (_, i) => [
      (i * 7919) % (byteLength - 9),
      1 + (i % 9),
    ]);
    const ranges = Float64Array.from(pages.flat());
    await expect(addon.populateRanges(mapping, ranges)).resolves.toBeUndefined();
    for (const [begin = 0, length = 0] of pages) {
      const resident = addon.residentBytes(mapping, begin, length);
      if (resident !== null) expect(resident).toBe(length);
    }
  });

  test.each([
    ['none', []],
    ['half a one', [0, 1, 2]],
    ['an empty one', [0, 1, 2, 0]],
    ['one before the file', [-1, 1]],
    ['one behind the file', [0, 1, 29_999, 2]],
    ['one that is too long', [0, 30_000]],
    ['a fraction', [0.5, 1]],
    ['too many', Array(2050).fill(1)],
  ])('refuses as ranges: %s', async (_, ranges) => {
    const code = 'ERR_INVALID_ARG_TYPE';
    const message = expect.stringContaining('ranges must be');
    const populating = addon.populateRanges(mapping, Float64Array.from(ranges));
    await expect(populating).rejects.toMatchObject({ code, message });
  });

  test('refuses as ranges what is no Float64Array', async () => {
    for (const ranges of [[0, 1], Float32Array.of(0, 1), undefined]) {
      const populating = addon.populateRanges(mapping, ranges as never);
      await expect(populating).rejects.toMatchObject({
        message: expect.stringContaining('ranges'),
      });
    }
    const wrong = { code: 'ERR_INVALID_ARG_TYPE' };
    const ranges = Float64Array.of(0, 1);
    await expect(addon.populateRanges(noMapping, ranges)).rejects.toMatchObject(wrong);
    addon.release(mapping);
    await expect(addon.populateRanges(mapping, ranges)).rejects.toMatchObject({ code: 'EBADF' });
  });

  test('duplicates the descriptor, which outlives the mapping', () => {
    const fd = addon.duplicateDescriptor(mapping);
    addon.release(mapping);
    expect(fstatSync(fd).size).toBe(byteLength);
    addon.closeDescriptor(fd);
    expect(() => fstatSync(fd)).toThrow(/EBADF/);
    // No descriptor has so high a number, so no other file can be hit.
    expect(() => addon.closeDescriptor(2 ** 31 - 1)).toThrow(/EBADF: close failed/);
  });

  test('refuses another object than a mapping, and a mapping that was released', async () => {
    const wrong = { code: 'ERR_INVALID_ARG_TYPE' };
    expect(() => addon.duplicateDescriptor(noMapping)).toThrow(expect.objectContaining(wrong));
    for (const fd of [-1, 2 ** 31, 0.5]) {
      const range = { code: 'ERR_OUT_OF_RANGE' };
      expect(() => addon.closeDescriptor(fd)).toThrow(expect.objectContaining(range));
    }
    addon.release(mapping);
    const released = { code: 'EBADF' };
    await expect(addon.populate(mapping, 0, 1)).rejects.toMatchObject(released);
    const counting = () => addon.residentBytes(mapping, 0, 1);
    expect(counting).toThrow(expect.objectContaining(released));
    const duplicating = () => addon.duplicateDescriptor(mapping);
    expect(duplicating).toThrow(expect.objectContaining(released));
  });
});
