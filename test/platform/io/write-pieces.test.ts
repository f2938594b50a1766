import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type AcquirableFile, alwaysOpen } from '../../../src/platform/io/acquirable-file.js';
import { type Write, writePieces } from '../../../src/platform/io/write-pieces.js';
import { Transfer, type TransferOptions } from '../../../src/work/transfer.js';
import { temporaryPath } from '../../support/make-file.js';

const MIB = 2 ** 20;

interface Call {
  readonly position: number;
  readonly byteLength: number;
  /** None for a copy, which has ranges. */
  readonly views?: number;
  readonly ranges?: number;
}

const calls = vi.hoisted(() => [] as Call[]);

vi.mock(import('../../../src/platform/io/file-writes.js'), async (importOriginal) => {
  const original = await importOriginal();
  const writeViews: typeof original.writeViews = (target, views, position) => {
    calls.push({ position, byteLength: byteLengthOf(views), views: views.length });
    return original.writeViews(target, views, position);
  };
  const copyRanges: typeof original.copyRanges = (ranges, target, position) => {
    calls.push({ position, byteLength: byteLengthOf(ranges), ranges: ranges.length });
    return original.copyRanges(ranges, target, position);
  };
  return { ...original, writeViews, copyRanges };
});

function byteLengthOf(parts: readonly { readonly byteLength: number }[]): number {
  return parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

const content = randomBytes(10 * MIB);
let source: AcquirableFile;
let sourceFd: number;
let targetPath: string;
let target: { fd: number; path: string };

beforeEach(() => {
  writeFileSync(temporaryPath('source'), content);
  sourceFd = openSync(temporaryPath('source'), 'r');
  source = alwaysOpen({ fd: sourceFd, path: 'source' });
  targetPath = temporaryPath('target');
  target = { fd: openSync(targetPath, 'w'), path: 'target' };
});

afterEach(() => {
  closeSync(sourceFd);
  closeSync(target.fd);
  calls.length = 0;
});

function transferOf(writes: readonly Write[], options: TransferOptions = {}): Transfer {
  return new Transfer(byteLengthOf(writes), options, () => {});
}

async function write(writes: readonly Write[]): Promise<void> {
  await writePieces(target, writes, transferOf(writes));
}

/** Bytes of `content` from `from` on, from memory. */
function inMemory(position: number, from: number, byteLength: number): Write {
  const memory = (begin: number, end: number) => content.subarray(from + begin, from + end);
  return { position, byteLength, source: memory };
}

/** The same from the file. */
function inFile(position: number, from: number, byteLength: number): Write {
  return { position, byteLength, source: { file: source, position: from } };
}

/** Neighbours of the given lengths, with the bytes that `content` has there. */
function neighbours(lengths: readonly number[], make: typeof inMemory, start = 0): Write[] {
  let position = start;
  return lengths.map((byteLength) => {
    position += byteLength;
    return make(position - byteLength, position - byteLength, byteLength);
  });
}

describe('writePieces', () => {
  test('writes every range to its place', async () => {
    const range = fc.record({
      byteLength: fc.integer({ min: 0, max: 5000 }),
      from: fc.nat(9 * MIB),
      isCopy: fc.boolean(),
      follows: fc.boolean(),
      gap: fc.constantFrom(0, 0, 0, 7),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(range, { maxLength: 30 }),
        fc.nat(10_000),
        async (ranges, start) => {
          const path = temporaryPath('property');
          target = { ...target, fd: openSync(path, 'w') };
          try {
            let position = start;
            let from = 0;
            const expected: Buffer[] = [Buffer.alloc(start)];
            const writes = ranges.map((range) => {
              const { byteLength, isCopy, gap } = range;
              // Ranges that are contiguous in the source and in the target may be joined.
              if (!range.follows || from + byteLength > content.byteLength) ({ from } = range);
              const write = (isCopy ? inFile : inMemory)(position, from, byteLength);
              expected.push(content.subarray(from, from + byteLength), Buffer.alloc(gap));
              position += byteLength + gap;
              from += byteLength;
              return write;
            });
            await write(writes);
            const end = writes.findLast(({ byteLength }) => byteLength > 0);
            const length = end === undefined ? 0 : end.position + end.byteLength;
            const bytes = Buffer.concat(expected).subarray(0, length);
            expect(Buffer.compare(readFileSync(path), bytes)).toBe(0);
          } finally {
            closeSync(target.fd);
          }
        },
      ),
      { numRuns: 40 },
    );
    target = { ...target, fd: openSync(targetPath, 'r') };
  });

  test('writes a long range of a file', async () => {
    await write([inFile(7, 5, 9 * MIB)]);
    const expected = Buffer.concat([Buffer.alloc(7), content.subarray(5, 9 * MIB + 5)]);
    expect(Buffer.compare(readFileSync(targetPath), expected)).toBe(0);
  });

  test('memory is asked for when its turn has come, in pieces', async () => {
    const asked: string[] = [];
    const writes = neighbours([10 * MIB - 7], inMemory, 7).map((range) => ({
      ...range,
      source: (begin: number, end: number) => {
        asked.push(`${begin}-${end} after ${calls.length}`);
        return content.subarray(7 + begin, 7 + end);
      },
    }));
    await write(writes);
    expect(Buffer.compare(readFileSync(targetPath).subarray(7), content.subarray(7))).toBe(0);
    // Cut at multiples of 8 MiB in the new file.
    const cut = 8 * MIB - 7;
    expect(asked.map((text) => text.split(' ')[0])).toEqual([`0-${cut}`, `${cut}-${10 * MIB - 7}`]);
    // The first two run side by side.
    expect(asked.at(-1)).toMatch(/after 1$/);
  });

  test('memory that became shorter is an error, not a hole', async () => {
    const shorter: Write = { position: 0, byteLength: 10, source: () => new Uint8Array(9) };
    await expect(write([shorter])).rejects.toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
      message: 'the length of the bytes to write must be 10, but is 9',
    });
    expect(statSync(targetPath).size).toBe(0);
  });

  test('a source that ends early is an error', async () => {
    await expect(write([inFile(0, 9 * MIB, 2 * MIB)])).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      path: 'source',
    });
  });

  test('errors of the system name the target', async () => {
    closeSync(target.fd);
    target = { fd: openSync(targetPath, 'r'), path: 'target' };
    const refused = { code: 'EBADF', path: 'target' };
    await expect(write([inMemory(0, 0, 10)])).rejects.toMatchObject(refused);
    await expect(write([inFile(0, 0, 10)])).rejects.toMatchObject(refused);
  });

  test('a long copy is cut: an abort need not wait for all of it', async () => {
    // Sparse: there is nothing to copy but the length.
    const path = temporaryPath('long');
    writeFileSync(path, '');
    truncateSync(path, 100 * MIB);
    const file = { fd: openSync(path, 'r'), path };
    try {
      const source = { file: alwaysOpen(file), position: 0 };
      const write = { position: MIB, byteLength: 99 * MIB, source };
      await writePieces(target, [write], transferOf([write]));
    } finally {
      closeSync(file.fd);
    }
    expect(calls.map(({ position }) => position / MIB)).toEqual([1, 64]);
    expect(calls.map(({ byteLength }) => byteLength / MIB)).toEqual([63, 36]);
    expect(statSync(targetPath).size).toBe(100 * MIB);
  });

  test('a thousand small neighbours are one call', async () => {
    const writes = neighbours(
      Array.from({ length: 2500 }, (_, i) => i % 7),
      inMemory,
    );
    await write(writes);
    expect(readFileSync(targetPath)).toEqual(content.subarray(0, byteLengthOf(writes)));
    expect(calls.map(({ views }) => views)).toEqual([1024, 1024, 2500 - 358 - 2048]);
  });

  test('small neighbours that are neighbours in the source too are one copy', async () => {
    await write(neighbours([5, 0, 100_000, 1, 3 * MIB], inFile, 10));
    expect(calls).toEqual([{ position: 10, byteLength: 3 * MIB + 100_006, ranges: 1 }]);
    calls.length = 0;
    await write([inFile(0, 0, 10), inFile(10, 11, 10), inFile(21, 21, 10), inMemory(31, 31, 10)]);
    expect(calls.map(({ byteLength }) => byteLength)).toEqual([20, 10, 10]);
    const expected = [content.subarray(0, 10), content.subarray(11, 21)];
    expect(readFileSync(targetPath).subarray(0, 20)).toEqual(Buffer.concat(expected));
  });

  test('short ranges from different places share a piece, long ones do not', async () => {
    const scattered = (lengths: readonly number[]): Write[] =>
      neighbours(lengths, (at, _, byteLength) => inFile(at, 9 * MIB - 2 * at, byteLength));
    await write(scattered(Array(2100).fill(3)));
    expect(calls.map(({ ranges }) => ranges)).toEqual([1024, 1024, 52]);
    calls.length = 0;
    const short = 256 * 1024;
    await write(scattered([short, short, short + 1, 5, short + 1]));
    expect(calls.map(({ ranges }) => ranges)).toEqual([2, 1, 1, 1]);
    calls.length = 0;
    await write(scattered(Array(17).fill(short)));
    expect(calls.map(({ byteLength }) => byteLength)).toEqual([4 * MIB, short]);
  });

  /** Ten pieces of memory. */
  const long = (): Write[] => {
    const bytes = new Uint8Array(8 * MIB);
    const memory = (begin: number, end: number) => bytes.subarray(0, end - begin);
    return [{ position: 0, byteLength: 80 * MIB, source: memory }];
  };

  test('reports progress, and stops at an abort', async () => {
    const controller = new AbortController();
    const reason = new Error('enough');
    const [write] = long() as [Write];
    const memory = write.source as (begin: number, end: number) => Uint8Array;
    const aborting = (begin: number, end: number): Uint8Array => {
      if (begin === 24 * MIB) controller.abort(reason);
      return memory(begin, end);
    };
    const writes = [{ ...write, source: aborting }];
    const { signal } = controller;
    await expect(writePieces(target, writes, transferOf(writes, { signal }))).rejects.toBe(reason);
    expect(calls).toHaveLength(4);

    const reports: number[] = [];
    const onProgress = ({ bytes }: { bytes: number }): number => reports.push(bytes);
    await writePieces(target, [write], transferOf([write], { onProgress }));
    expect(reports.at(-1)).toBe(80 * MIB);
  });

  test('several at once do not disturb each other', async () => {
    const files = [0, 1, 2, 3, 4].map((i) => temporaryPath(`target${i}`));
    await Promise.all(
      files.map(async (path, i) => {
        const fd = openSync(path, 'w');
        const broken: Write = { position: 0, byteLength: 1, source: () => new Uint8Array(0) };
        const writes = [inMemory(0, i, MIB), inFile(MIB, i, 8 * MIB)];
        const all = i === 2 ? [...writes, broken] : writes;
        const writing = writePieces({ fd, path }, all, transferOf(writes));
        await (i === 2 ? expect(writing).rejects.toThrow() : writing);
        closeSync(fd);
      }),
    );
    for (const [i, path] of files.entries()) {
      const expected = [content.subarray(i, i + MIB), content.subarray(i, i + 8 * MIB)];
      const same = Buffer.compare(readFileSync(path), Buffer.concat(expected)) === 0;
      if (i !== 2) expect(same).toBe(true);
    }
  });
});
