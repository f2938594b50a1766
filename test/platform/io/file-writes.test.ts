import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Addon, AddonLoad } from '../../../src/platform/addon/load.js';
import { type CopiedRange, copyRanges, writeViews } from '../../../src/platform/io/file-writes.js';
import { temporaryPath } from '../../support/make-file.js';

const { limits, addon } = vi.hoisted(() => ({
  limits: { bytesPerWrite: Number.POSITIVE_INFINITY },
  addon: {} as { load?: AddonLoad; real?: AddonLoad },
}));

// The system may write less than was asked for at any time; local disks never do.
vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const { promisify } = await import('node:util');
  const shortened = (views: readonly NodeJS.ArrayBufferView[]): Uint8Array[] => {
    let left = limits.bytesPerWrite;
    return (views as readonly Uint8Array[]).map((view) => {
      const part = view.subarray(0, left);
      left -= part.byteLength;
      return part;
    });
  };
  const original = promisify(fs.writev);
  const limited = (fd: number, views: readonly Uint8Array[], position: number): Promise<unknown> =>
    original(fd, shortened(views), position);
  const writev = Object.assign(() => {}, { [promisify.custom]: limited });
  return { ...fs, writev } as unknown as typeof fs;
});

vi.mock(import('../../../src/platform/addon/load.js'), async (importOriginal) => {
  const original = await importOriginal();
  addon.real = original.loadAddon();
  addon.load = addon.real;
  return { ...original, loadAddon: () => addon.load as AddonLoad };
});

const open: number[] = [];

function openFile(path: string, flags: string): { fd: number; path: string } {
  const fd = openSync(path, flags);
  open.push(fd);
  return { fd, path: path.slice(path.lastIndexOf('/') + 1) };
}

beforeEach(() => {
  addon.load = addon.real as AddonLoad;
  limits.bytesPerWrite = Number.POSITIVE_INFINITY;
});

afterEach(() => {
  for (const fd of open.splice(0)) closeSync(fd);
});

describe('writeViews', () => {
  test('writes the views at the position, empty ones among them, and continues short writes', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 12 }),
        fc.nat(50),
        fc.integer({ min: 1, max: 30 }),
        async (views, position, bytesPerWrite) => {
          limits.bytesPerWrite = bytesPerWrite;
          const path = temporaryPath('target');
          writeFileSync(path, new Uint8Array(position));
          await writeViews(openFile(path, 'r+'), views, position);
          expect(readFileSync(path)).toEqual(Buffer.concat([Buffer.alloc(position), ...views]));
        },
      ),
      { numRuns: 50 },
    );
  });

  test('a system that writes nothing is an error, not an endless loop', async () => {
    limits.bytesPerWrite = 0;
    const target = openFile(temporaryPath('target'), 'w');
    await expect(writeViews(target, [new Uint8Array(1)], 0)).rejects.toMatchObject({
      code: 'EIO',
      message: "EIO: i/o error, write 'target'",
    });
  });

  test('errors of the system name the target', async () => {
    const path = temporaryPath('target');
    writeFileSync(path, 'x');
    await expect(writeViews(openFile(path, 'r'), [new Uint8Array(1)], 0)).rejects.toMatchObject({
      code: 'EBADF',
      syscall: 'write',
      path: 'target',
      message: "EBADF: bad file descriptor, write 'target'",
    });
  });
});

/** An addon whose copies refuse, copy some bytes at a time, or claim the end of the source. */
function copying(copyFileRangeAsync: Addon['copyFileRangeAsync']): AddonLoad {
  const real = addon.real as Extract<AddonLoad, { addon: Addon }>;
  return { ...real, addon: { ...real.addon, copyFileRangeAsync } };
}

function refusing(code: string): AddonLoad {
  return copying(async () => {
    throw Object.assign(new Error(code), { code, errno: -1, syscall: 'copy_file_range' });
  });
}

describe('copyRanges', () => {
  const content = randomBytes(9_000_000);
  let source: { fd: number; path: string };
  let path: string;

  const range = (position: number, byteLength: number): CopiedRange => ({
    file: source,
    position,
    byteLength,
  });

  beforeEach(() => {
    const sourcePath = temporaryPath('source');
    writeFileSync(sourcePath, content);
    source = openFile(sourcePath, 'r');
    path = temporaryPath('target');
  });

  const addons: readonly (readonly [string, () => AddonLoad])[] = [
    ['the kernel', () => addon.real as AddonLoad],
    ['no addon', () => ({ reason: 'none', remedy: 'none' })],
    ...['ENOTSUP', 'ENOSYS', 'EXDEV', 'EINVAL', 'EPERM'].map(
      (code) => [code, () => refusing(code)] as const,
    ),
    ['a kernel that copies nothing', () => copying(async () => 0)],
    [
      'a kernel that copies in small pieces and then no more',
      () => {
        let calls = 0;
        const { addon: real } = addon.real as { addon: Addon };
        return copying(async (sourceFd, from, targetFd, to, length) =>
          calls++ === 5
            ? 0
            : real.copyFileRangeAsync(sourceFd, from, targetFd, to, Math.min(length, 1001)),
        );
      },
    ],
  ];

  test.each(addons)('copies a range with %s', async (_, load) => {
    addon.load = load();
    const target = openFile(path, 'w');
    for (const [from, to, length] of [
      [0, 3, 0],
      [4_400_001, 13, 4_500_000],
      [8_999_999, 4_500_013, 1],
    ] as const) {
      await copyRanges([range(from, length)], target, to);
    }
    const expected = [Buffer.alloc(13), content.subarray(4_400_001, 8_900_001)];
    const whole = Buffer.concat([...expected, content.subarray(-1)]);
    expect(Buffer.compare(readFileSync(path), whole)).toBe(0);
  });

  test.each(addons)('with %s, a source that ends early is an error', async (_, load) => {
    addon.load = load();
    const copying = copyRanges([range(8_000_000, 2_000_000)], openFile(path, 'w'), 0);
    await expect(copying).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: 'source',
      message: 'source: the file was truncated: expected at least 10000000 bytes, found 9000000',
    });
  });

  test('other errors of the kernel are thrown, and name the target', async () => {
    addon.load = copying(async () => {
      throw Object.assign(new Error(), { code: 'ENOSPC', errno: -28, syscall: 'copy_file_range' });
    });
    await expect(copyRanges([range(0, 10)], openFile(path, 'w'), 0)).rejects.toMatchObject({
      code: 'ENOSPC',
      syscall: 'copy_file_range',
      path: 'target',
    });
    expect(readFileSync(path).byteLength).toBe(0);
  });

  describe.each(addons.slice(0, 2))('several with %s', (_, load) => {
    beforeEach(() => {
      addon.load = load();
    });

    test('go one after the other', async () => {
      const target = openFile(path, 'w');
      await copyRanges([range(7, 100)], target, 3);
      await copyRanges([range(100_000, 70_000), range(5, 1), range(50_000, 4096)], target, 103);
      const expected = [
        Buffer.alloc(3),
        content.subarray(7, 107),
        content.subarray(100_000, 170_000),
        content.subarray(5, 6),
        content.subarray(50_000, 54_096),
      ];
      expect(readFileSync(path)).toEqual(Buffer.concat(expected));
    });

    test('a source that ends early is an error that names it', async () => {
      const ranges = [range(0, 10), range(8_999_995, 10), range(20, 10)];
      await expect(copyRanges(ranges, openFile(path, 'w'), 0)).rejects.toMatchObject({
        code: 'SAFETENSORS_FILE_CHANGED',
        path: 'source',
      });
    });

    test('errors of the system name the target', async () => {
      writeFileSync(path, '');
      const target = openFile(path, 'r');
      await expect(copyRanges([range(0, 10), range(20, 10)], target, 0)).rejects.toMatchObject({
        code: 'EBADF',
        path: 'target',
      });
    });
  });
});
