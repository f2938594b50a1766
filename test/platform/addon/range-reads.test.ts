/** The addon's reads of many ranges together, called directly. */
import { closeSync, readFileSync, truncateSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { type Addon, loadAddon, type Mapping } from '../../../src/platform/addon/load.js';
import { openRegularFile } from '../../../src/platform/io/opened-file.js';
import { runSync } from '../../../src/work/work.js';
import { fileBytes, writeTemporary } from '../../support/make-file.js';
import { dropFromPageCache } from '../../support/page-cache.js';

const load = loadAddon();

describe.runIf('addon' in load)('the addon', () => {
  const { addon } = load as { addon: Addon };

  function map(rows = 5): { path: string; mapping: Mapping; byteLength: number } {
    const path = writeTemporary([{ name: 't', dtype: 'U8', shape: [rows, 4000] }]);
    const { fd, byteLength } = runSync(openRegularFile(path, path));
    const mapping = addon.mapFile(fd, byteLength, true);
    closeSync(fd);
    onTestFinished(() => addon.release(mapping));
    return { path, mapping, byteLength };
  }

  const bytesOf = (rows: number): Uint8Array =>
    fileBytes([{ name: 't', dtype: 'U8', shape: [rows, 4000] }]);

  const ways = [
    ['here', async (...args: Parameters<Addon['readRanges']>) => addon.readRanges(...args)],
    ['on the pool', (...args: Parameters<Addon['readRanges']>) => addon.readRangesAsync(...args)],
  ] as const;

  describe.each(ways)('%s', (_, read) => {
    test.each([
      ['the whole file', (length: number) => [0, length]],
      ['single bytes', (length: number) => [0, 1, 4095, 1, 4096, 1, length - 1, 1]],
      ['in any order, repeated and overlapping', () => [9000, 500, 100, 3, 9000, 500, 8990, 20]],
      ['as many as there may be', () => Array.from({ length: 1024 }, (_, i) => [i * 19, 7]).flat()],
    ])('reads %s', async (_name, rangesOf) => {
      const { path, mapping, byteLength } = map();
      const content = bytesOf(5);
      const ranges = rangesOf(byteLength);
      const expected: number[] = [];
      for (let i = 0; i < ranges.length; i += 2) {
        const [begin = 0, length = 0] = ranges.slice(i, i + 2);
        expected.push(...content.subarray(begin, begin + length));
      }
      for (const isCold of [false, true]) {
        if (isCold && !dropFromPageCache(path)) break;
        const target = new Uint8Array(expected.length);
        await expect(read(mapping, Float64Array.from(ranges), target)).resolves.toBeUndefined();
        expect(Buffer.compare(target, Uint8Array.from(expected))).toBe(0);
      }
    });

    test('brings the pages of the ranges from the disk, and none around them', async ({ skip }) => {
      const { path, mapping, byteLength } = map(4096);
      if (!dropFromPageCache(path)) skip();
      const before = addon.residentBytes(mapping, 0, byteLength);
      if (before === null || before > 2 ** 20) skip();
      const ranges = Array.from({ length: 60 }, (_, i) => [i * 200_000 + 1_000_000, 100]).flat();
      await read(mapping, Float64Array.from(ranges), new Uint8Array(6000));
      const come = (addon.residentBytes(mapping, 0, byteLength) ?? 0) - (before ?? 0);
      expect(come).toBeGreaterThanOrEqual(60 * 100);
      expect(come).toBeLessThanOrEqual(60 * 2 * 65_536);
    });

    test('gives zeros behind the end of a file that was cut short', async () => {
      const { path, mapping } = map();
      truncateSync(path, 5000);
      const target = new Uint8Array(3).fill(1);
      await read(mapping, Float64Array.of(15_000, 3), target);
      expect([...target]).toEqual([0, 0, 0]);
    });

    test('copies from the mapping once the descriptor is closed', async () => {
      const { path, mapping } = map();
      dropFromPageCache(path);
      addon.closeFile(mapping);
      const target = new Uint8Array(300);
      await read(mapping, Float64Array.of(10_000, 300), target);
      expect([...target]).toEqual([...bytesOf(5).subarray(10_000, 10_300)]);
    });

    test.each([
      ['ranges', 'none', [], 0],
      ['ranges', 'half a one', [0, 1, 2], 3],
      ['ranges', 'an empty one', [0, 0], 0],
      ['ranges', 'one before the file', [-1, 1], 1],
      ['ranges', 'one behind the file', [30_000, 2], 2],
      ['ranges', 'a fraction', [0.5, 1], 1],
      ['ranges', 'too many', Array(2050).fill(1), 1025],
      ['target', 'too short', [0, 5, 9, 5], 9],
      ['target', 'too long', [0, 5, 9, 5], 11],
    ])('refuses as %s: %s', async (name, _what, ranges, length) => {
      const { mapping } = map();
      const reading = read(mapping, Float64Array.from(ranges as number[]), new Uint8Array(length));
      const message = expect.stringContaining(`${name} must be`);
      await expect(reading).rejects.toMatchObject({ code: 'ERR_INVALID_ARG_TYPE', message });
    });

    test('refuses what is no mapping, no array, and a mapping that was released', async () => {
      const { mapping } = map();
      const ranges = Float64Array.of(0, 1);
      const invalid = (name: string) => ({
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringContaining(`${name} must be`),
      });
      const target = new Uint8Array(1);
      await expect(read({} as Mapping, ranges, target)).rejects.toMatchObject(invalid('mapping'));
      await expect(read(mapping, [0, 1] as never, target)).rejects.toMatchObject(invalid('ranges'));
      const wrong = new Float32Array(1) as never;
      await expect(read(mapping, ranges, wrong)).rejects.toMatchObject(invalid('target'));
      addon.release(mapping);
      await expect(read(mapping, ranges, target)).rejects.toMatchObject({ code: 'EBADF' });
    });
  });

  test.runIf(process.platform === 'linux')('cached ranges are read at once', () => {
    const { path, mapping } = map();
    readFileSync(path);
    const target = new Uint8Array(600);
    const ranges = Float64Array.of(9000, 500, 100, 100);
    expect(addon.readCachedRanges(mapping, ranges, target)).toBe(true);
    const content = bytesOf(5);
    expect([...target]).toEqual([...content.subarray(9000, 9500), ...content.subarray(100, 200)]);
    truncateSync(path, 9400);
    expect(addon.readCachedRanges(mapping, ranges, target)).toBe(false);
    addon.closeFile(mapping);
    expect(addon.readCachedRanges(mapping, ranges, target)).toBe(false);
    const wrong = new Uint8Array(599);
    expect(() => addon.readCachedRanges(mapping, ranges, wrong)).toThrow(TypeError);
    addon.release(mapping);
    expect(() => addon.readCachedRanges(mapping, ranges, target)).toThrow(
      expect.objectContaining({ code: 'EBADF' }),
    );
  });

  test('ranges on the disk are not read as cached ones', ({ skip }) => {
    const { path, mapping, byteLength } = map(4096);
    if (!dropFromPageCache(path)) skip();
    const before = addon.residentBytes(mapping, 0, byteLength);
    if (before === null || before > 2 ** 20) skip();
    const ranges = Float64Array.of(8_000_000, 100);
    expect(addon.readCachedRanges(mapping, ranges, new Uint8Array(100))).toBe(false);
  });

  test('on the pool, a read goes on when the mapping is closed and released meanwhile', async () => {
    const { mapping } = map();
    const target = new Uint8Array(1000);
    const reading = addon.readRangesAsync(mapping, Float64Array.of(12_000, 1000), target);
    addon.closeFile(mapping);
    addon.release(mapping);
    await reading;
    expect([...target]).toEqual([...bytesOf(5).subarray(12_000, 13_000)]);
  });

  test('after the advice that pages are touched in any order, a touch brings one page', ({
    skip,
  }) => {
    const { path, mapping, byteLength } = map(4096);
    addon.adviseRandom(mapping);
    if (!dropFromPageCache(path)) skip();
    const before = addon.residentBytes(mapping, 0, byteLength);
    if (before === null || before > 2 ** 20) skip();
    const bytes = new Uint8Array(addon.tensorBuffer(mapping, 0, byteLength));
    expect(bytes[8_000_000]).toBe(bytesOf(4096)[8_000_000]);
    expect((addon.residentBytes(mapping, 0, byteLength) ?? 0) - (before ?? 0)).toBe(4096);
  });

  test('what is populated comes whole after that advice, too', async () => {
    const { mapping } = map(4096);
    addon.adviseRandom(mapping);
    await addon.populate(mapping, 1_000_000, 100_000);
    expect([100_000, null]).toContain(addon.residentBytes(mapping, 1_000_000, 100_000));
    addon.release(mapping);
    expect(() => addon.adviseRandom(mapping)).toThrow(expect.objectContaining({ code: 'EBADF' }));
    expect(() => addon.adviseRandom({} as Mapping)).toThrow(TypeError);
  });
});
