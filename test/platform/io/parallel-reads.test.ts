import { randomBytes } from 'node:crypto';
import { closeSync, openSync, type PathLike, writeFileSync } from 'node:fs';
import { afterEach, expect, test, vi } from 'vitest';
import { readRanges, type TensorRange } from '../../../src/platform/io/parallel-reads.js';
import { Transfer } from '../../../src/work/transfer.js';
import { temporaryPath } from '../../support/make-file.js';

const MIB = 2 ** 20;

interface Call {
  readonly views: number;
  readonly byteLength: number;
}

const { calls, limits } = vi.hoisted(() => ({
  calls: [] as Call[],
  limits: { bytesPerCall: Number.POSITIVE_INFINITY },
}));

// The system may read less than was asked for at any time; local disks never do.
vi.mock(import('node:fs'), async (importOriginal) => {
  const fs = await importOriginal();
  const { promisify } = await import('node:util');
  const original = promisify(fs.readv);
  const limited = async (
    fd: number,
    views: readonly Uint8Array[],
    position: number,
  ): Promise<unknown> => {
    calls.push({
      views: views.length,
      byteLength: views.reduce((sum, view) => sum + view.byteLength, 0),
    });
    let left = limits.bytesPerCall;
    const some = views.map((view) => {
      const part = view.subarray(0, left);
      left -= part.byteLength;
      return part;
    });
    return original(fd, some, position);
  };
  const readv = Object.assign((...args: Parameters<typeof fs.readv>) => fs.readv(...args), {
    [promisify.custom]: limited,
  });
  return { ...fs, readv } as unknown as typeof fs;
});

afterEach(() => {
  calls.length = 0;
  limits.bytesPerCall = Number.POSITIVE_INFINITY;
});

async function read(
  path: PathLike,
  ranges: readonly TensorRange[],
  onRead: (range: TensorRange, buffer: ArrayBuffer) => void,
): Promise<void> {
  const fd = openSync(path, 'r');
  try {
    const total = ranges.reduce((sum, { byteLength }) => sum + byteLength, 0);
    await readRanges({ fd, path: 'x' }, ranges, new Transfer(total, {}, () => {}), onRead);
  } finally {
    closeSync(fd);
  }
}

/** Reads and compares each range with the bytes of the file; gives the ranges that came. */
async function readAndCompare(
  bytes: Buffer,
  ranges: readonly TensorRange[],
): Promise<TensorRange[]> {
  const path = temporaryPath('bytes');
  writeFileSync(path, bytes);
  const came: TensorRange[] = [];
  await read(path, ranges, (range, buffer) => {
    const { position, byteLength } = range;
    expect(
      Buffer.compare(Buffer.from(buffer), bytes.subarray(position, position + byteLength)),
    ).toBe(0);
    came.push(range);
  });
  return came;
}

/** Consecutive ranges of the given lengths. */
function consecutive(lengths: readonly number[], start = 0): TensorRange[] {
  let position = start;
  return lengths.map((byteLength) => {
    position += byteLength;
    return { name: 't', position: position - byteLength, byteLength };
  });
}

test('a long range is read in pieces, neighbours together, gaps not at all', async () => {
  const ranges = [
    ...consecutive([5, 9 * MIB, 0, 7, 100]),
    { name: 'u', position: 10 * MIB, byteLength: 1 },
    { name: 'v', position: 11 * MIB, byteLength: 2 * MIB },
  ];
  const came = await readAndCompare(randomBytes(13 * MIB), ranges);
  expect(came.length).toBe(ranges.length - 1);
  expect(new Set(came)).toEqual(new Set(ranges.filter(({ byteLength }) => byteLength > 0)));
  expect(calls.map(({ byteLength }) => byteLength)).toEqual([
    4 * MIB,
    4 * MIB,
    MIB + 112,
    1,
    2 * MIB,
  ]);
});

test('a thousand small neighbours are one read', async () => {
  const ranges = consecutive(Array.from({ length: 2500 }, (_, i) => 1 + (i % 7)));
  const came = await readAndCompare(randomBytes(20_000), ranges);
  // Reads run side by side and may end in any order.
  expect(came.toSorted((a, b) => a.position - b.position)).toEqual(ranges);
  expect(calls.map(({ views }) => views)).toEqual([1024, 1024, 452]);
});

test('short reads are continued', async () => {
  limits.bytesPerCall = 1000;
  const ranges = consecutive([10, 2990, 1, 1, 1, 4997, 500], 3);
  const came = await readAndCompare(randomBytes(10_000), ranges);
  expect(new Set(came)).toEqual(new Set(ranges));
  expect(calls.length).toBe(9);
});

test('the end of the file before the end of a range is an error', async () => {
  const path = temporaryPath('bytes');
  writeFileSync(path, randomBytes(1000));
  const reading = read(path, consecutive([900, 300]), () => {});
  await expect(reading).rejects.toMatchObject({
    code: 'SAFETENSORS_FILE_CHANGED',
    path: 'x',
    message: 'x: the file was truncated: expected at least 1200 bytes, found 1000',
  });
});

test('errors of the system pass unchanged', async () => {
  const fd = openSync(temporaryPath('bytes'), 'w');
  try {
    const transfer = new Transfer(1, {}, () => {});
    const reading = readRanges({ fd, path: 'x' }, consecutive([1]), transfer, () => {});
    await expect(reading).rejects.toMatchObject({ code: 'EBADF', syscall: 'read' });
  } finally {
    closeSync(fd);
  }
});
