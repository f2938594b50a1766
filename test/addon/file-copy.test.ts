/** The addon's copies between files, called directly. */
import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Addon, loadAddon } from '../../src/addon/load.js';
import { temporaryPath } from '../support/make-file.js';

const load = loadAddon();

describe.runIf('addon' in load && process.platform === 'linux')('the addon', () => {
  const { addon } = load as { addon: Addon };
  const content = randomBytes(100_000);
  let source: number;
  let target: number;

  beforeEach(() => {
    writeFileSync(temporaryPath('source'), content);
    source = openSync(temporaryPath('source'), 'r');
    target = openSync(temporaryPath('target'), 'w');
  });

  afterEach(() => {
    closeSync(source);
    closeSync(target);
  });

  const allocate = [
    ['allocate', async (fd: number, byteLength: number) => addon.allocate(fd, byteLength)],
    ['allocateAsync', (fd: number, byteLength: number) => addon.allocateAsync(fd, byteLength)],
  ] as const;
  type Args = Parameters<Addon['copyFileRange']>;
  type GatherArgs = Parameters<Addon['gatherRanges']>;
  const copy = [
    ['copyFileRange', async (...args: Args) => addon.copyFileRange(...args)],
    ['copyFileRangeAsync', (...args: Args) => addon.copyFileRangeAsync(...args)],
  ] as const;

  test.each(allocate)('%s gives space and length', async (_, call) => {
    await call(target, 1_234_567);
    const { size, blocks } = fstatSync(target);
    expect(size).toBe(1_234_567);
    expect(blocks * 512).toBeGreaterThanOrEqual(size);
    await call(target, 5);
    expect(fstatSync(target).size).toBe(1_234_567);
  });

  test.each(allocate)('%s throws what the system refuses', async (_, call) => {
    const refused = { code: 'EBADF', syscall: 'fallocate' };
    await expect(call(source, 5)).rejects.toMatchObject(refused);
    await expect(call(target, Number.MAX_SAFE_INTEGER)).rejects.toMatchObject({ code: 'EFBIG' });
  });

  const gather = [
    ['gatherRanges', async (...args: GatherArgs) => addon.gatherRanges(...args)],
    ['gatherRangesAsync', (...args: GatherArgs) => addon.gatherRangesAsync(...args)],
  ] as const;

  test.each(gather)(
    '%s copies ranges, up to one that lies partly behind the end',
    async (_, call) => {
      const ranges = [source, 90_000, 10_000, source, 5, 1, source, 99_999, 2, source, 0, 9];
      expect(await call(Float64Array.from(ranges), target, 3)).toBe(10_001);
      const expected = [Buffer.alloc(3), content.subarray(90_000), content.subarray(5, 6)];
      expect(readFileSync(temporaryPath('target'))).toEqual(Buffer.concat(expected));
      const refused = { code: 'EBADF', syscall: 'pwrite' };
      await expect(call(Float64Array.of(source, 0, 1), source, 0)).rejects.toMatchObject(refused);
    },
  );

  test.each(gather)('%s refuses what it could not hold', async (_, call) => {
    const many = Array(1025).fill([source, 0, 1]).flat();
    for (const ranges of [[], [source, 0], [source, 0, 0], [source, 0, 2 ** 24 + 1], many]) {
      await expect(call(Float64Array.from(ranges), target, 0)).rejects.toThrow('ranges');
    }
    const half = [source, 0, 2 ** 23, source, 0, 2 ** 23 + 1];
    await expect(call(Float64Array.from(half), target, 0)).rejects.toThrow('ranges');
    await expect(call(new Float32Array(3) as never, target, 0)).rejects.toThrow('ranges');
    await expect(call(Float64Array.of(source, 0, 1), -1, 0)).rejects.toThrow('targetFd');
    await expect(call(Float64Array.of(source, 0, 1), target, 0.5)).rejects.toThrow(
      'targetPosition',
    );
  });

  test.each(copy)('%s copies, to the end of the source', async (_, call) => {
    expect(await call(source, 10, target, 3, 50_000)).toBe(50_000);
    expect(await call(source, 90_000, target, 50_003, 50_000)).toBe(10_000);
    expect(await call(source, 100_000, target, 0, 1)).toBe(0);
    const expected = [Buffer.alloc(3), content.subarray(10, 50_010), content.subarray(90_000)];
    expect(readFileSync(temporaryPath('target'))).toEqual(Buffer.concat(expected));
  });

  test.each(copy)('%s throws what the system refuses', async (_, call) => {
    const refused = { code: 'EBADF', syscall: 'copy_file_range' };
    await expect(call(target, 0, target, 0, 5)).rejects.toMatchObject(refused);
    const pipe = openSync('/dev/null', 'w');
    await expect(call(source, 0, pipe, 0, 5)).rejects.toMatchObject({ code: 'EINVAL' });
    closeSync(pipe);
  });

  const wrong: readonly unknown[] = [undefined, null, 'x', -1, 0.5, Number.NaN, 2 ** 60, {}];
  const invalid = { code: expect.stringMatching(/^ERR_(INVALID_ARG_TYPE|OUT_OF_RANGE)$/) };

  test('a wrong argument in any place is a TypeError or a RangeError', async () => {
    for (const value of wrong as readonly never[]) {
      for (const [, call] of allocate) {
        await expect(call(value, 1)).rejects.toMatchObject(invalid);
        await expect(call(target, value)).rejects.toMatchObject(invalid);
      }
      for (const [, call] of copy) {
        const args = [source, 0, target, 0, 1] as const;
        for (let i = 0; i < args.length; i++) {
          await expect(call(...(args.with(i, value) as Args))).rejects.toMatchObject(invalid);
        }
      }
    }
    await expect(addon.copyFileRangeAsync(source, 0, target, 0, 0)).rejects.toMatchObject({
      message: expect.stringContaining('byteLength must be'),
    });
  });
});
