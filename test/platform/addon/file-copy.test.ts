/** The addon's copies between files, called directly. */
import { randomBytes } from 'node:crypto';
import { closeSync, fstatSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type Addon, loadAddon } from '../../../src/platform/addon/load.js';
import { temporaryPath } from '../../support/make-file.js';

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

  const allocate: Addon['allocateAsync'] = (...args) => addon.allocateAsync(...args);
  const copy: Addon['copyFileRangeAsync'] = (...args) => addon.copyFileRangeAsync(...args);
  const gather: Addon['gatherRangesAsync'] = (...args) => addon.gatherRangesAsync(...args);

  test('allocateAsync gives space and length', async () => {
    await allocate(target, 1_234_567);
    const { size, blocks } = fstatSync(target);
    expect(size).toBe(1_234_567);
    expect(blocks * 512).toBeGreaterThanOrEqual(size);
    await allocate(target, 5);
    expect(fstatSync(target).size).toBe(1_234_567);
  });

  test('allocateAsync throws what the system refuses', async () => {
    const refused = { code: 'EBADF', syscall: 'fallocate' };
    await expect(allocate(source, 5)).rejects.toMatchObject(refused);
    await expect(allocate(target, Number.MAX_SAFE_INTEGER)).rejects.toMatchObject({
      code: 'EFBIG',
    });
  });

  test('gatherRangesAsync copies ranges, up to one that lies partly behind the end', async () => {
    const ranges = [source, 90_000, 10_000, source, 5, 1, source, 99_999, 2, source, 0, 9];
    expect(await gather(Float64Array.from(ranges), target, 3)).toBe(10_001);
    const expected = [Buffer.alloc(3), content.subarray(90_000), content.subarray(5, 6)];
    expect(readFileSync(temporaryPath('target'))).toEqual(Buffer.concat(expected));
    const refused = { code: 'EBADF', syscall: 'pwrite' };
    const gathering = gather(Float64Array.of(source, 0, 1), source, 0);
    await expect(gathering).rejects.toMatchObject(refused);
  });

  test('gatherRangesAsync takes up to 1 024 ranges and 16 MiB', async () => {
    const ranges = (count: number) => Float64Array.from(Array(count).fill([source, 0, 1]).flat());
    expect(await gather(ranges(1024), target, 0)).toBe(1024);
    await expect(gather(ranges(1025), target, 0)).rejects.toThrow('ranges');
    // The source is shorter than its range.
    expect(await gather(Float64Array.of(source, 0, 2 ** 24), target, 0)).toBe(0);
    await expect(gather(Float64Array.of(source, 0, 2 ** 24 + 1), target, 0)).rejects.toThrow(
      'ranges',
    );
    const half = [source, 0, 2 ** 23, source, 0, 2 ** 23 + 1];
    await expect(gather(Float64Array.from(half), target, 0)).rejects.toThrow('ranges');
  });

  test('gatherRangesAsync refuses other arguments', async () => {
    const wrong = [
      [],
      [source, 0],
      [source, 0, 0],
      [-1, 0, 1],
      [2 ** 31, 0, 1],
      [source, -1, 1],
      [source, 0.5, 1],
      [source, 0, NaN],
    ];
    for (const ranges of wrong) {
      await expect(gather(Float64Array.from(ranges), target, 0)).rejects.toThrow('ranges');
    }
    await expect(gather(new Float32Array(3) as never, target, 0)).rejects.toThrow('ranges');
    const right = Float64Array.of(source, 0, 1);
    await expect(gather(right, -1, 0)).rejects.toThrow('targetFd');
    await expect(gather(right, target, 0.5)).rejects.toThrow('targetPosition');
  });

  test('copyFileRangeAsync copies up to the end of the source', async () => {
    expect(await copy(source, 10, target, 3, 50_000)).toBe(50_000);
    expect(await copy(source, 90_000, target, 50_003, 50_000)).toBe(10_000);
    expect(await copy(source, 100_000, target, 0, 1)).toBe(0);
    const expected = [Buffer.alloc(3), content.subarray(10, 50_010), content.subarray(90_000)];
    expect(readFileSync(temporaryPath('target'))).toEqual(Buffer.concat(expected));
  });

  test('copyFileRangeAsync throws what the system refuses', async () => {
    const refused = { code: 'EBADF', syscall: 'copy_file_range' };
    await expect(copy(target, 0, target, 0, 5)).rejects.toMatchObject(refused);
    const pipe = openSync('/dev/null', 'w');
    await expect(copy(source, 0, pipe, 0, 5)).rejects.toMatchObject({ code: 'EINVAL' });
    closeSync(pipe);
  });

  const wrong: readonly unknown[] = [undefined, null, 'x', -1, 0.5, Number.NaN, 2 ** 60, {}];
  const invalid = { code: expect.stringMatching(/^ERR_(INVALID_ARG_TYPE|OUT_OF_RANGE)$/) };

  test('a wrong argument in any place is a TypeError or a RangeError', async () => {
    for (const value of wrong as readonly never[]) {
      await expect(allocate(value, 1)).rejects.toMatchObject(invalid);
      await expect(allocate(target, value)).rejects.toMatchObject(invalid);
      const args = [source, 0, target, 0, 1] as const;
      for (let i = 0; i < args.length; i++) {
        const changed = args.with(i, value) as Parameters<typeof copy>;
        await expect(copy(...changed)).rejects.toMatchObject(invalid);
      }
    }
    await expect(copy(source, 0, target, 0, 0)).rejects.toMatchObject({
      message: expect.stringContaining('byteLength must be'),
    });
  });
});
