import { randomBytes } from 'node:crypto';
import { closeSync, openSync, readSync, truncateSync, writeFileSync } from 'node:fs';
import { afterEach, describe, expect, test } from 'vitest';
import { loadAddon } from '../../../src/platform/addon/load.js';
import {
  blocksLength,
  directMemory,
  passOver,
  DIRECT_READ_BYTE_LENGTH as READ,
} from '../../../src/platform/io/direct-io.js';
import { temporaryPath } from '../../support/make-file.js';
import { openDescriptors } from '../../support/open-descriptors.js';
import { dropFromPageCache } from '../../support/page-cache.js';

const opened: number[] = [];
afterEach(() => opened.splice(0).forEach(closeSync));

/** Writes a file, cold if asked for and possible, and opens it. */
function fileOf(bytes: Uint8Array, isCold: boolean) {
  const path = temporaryPath('bytes');
  writeFileSync(path, bytes);
  if (isCold) dropFromPageCache(path);
  const fd = openSync(path, 'r');
  opened.push(fd);
  return { fd, path, byteLength: bytes.length };
}

/** How many bytes of the file are in the page cache; null where nobody knows. */
function cachedBytes({ fd, byteLength }: { fd: number; byteLength: number }): number | null {
  const load = loadAddon();
  if (!('addon' in load)) return null;
  const mapping = load.addon.mapFile(fd, byteLength, false);
  try {
    return load.addon.residentBytes(mapping, 0, byteLength);
  } finally {
    load.addon.release(mapping);
  }
}

/** Reads the file through so many places of memory; returns its bytes. */
async function passed(file: ReturnType<typeof fileOf>, memory: Uint8Array): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let next = 0;
  await passOver(file, memory, async (begin, end, position) => {
    expect(position).toBe(next);
    next += end - begin;
    // Whoever keeps a piece for a while still has its bytes.
    await new Promise(setImmediate);
    pieces.push(Buffer.from(memory.slice(begin, end)));
  });
  return Buffer.concat(pieces);
}

describe.each([
  ['in the page cache', false],
  ['not in the page cache', true],
])('a file that is %s', (_, isCold) => {
  test.each([0, 1, 4095, 4096, 4097, READ - 1, READ, READ + 1, 3 * READ + 4097])(
    'is read whole, in order: %i bytes',
    async (byteLength) => {
      const bytes = randomBytes(byteLength);
      const file = fileOf(bytes, isCold);
      const memory = directMemory(Math.min(2 * READ, blocksLength(byteLength)), file.path);
      expect(Buffer.compare(await passed(file, memory), bytes)).toBe(0);
    },
  );

  test('is read into memory at any address', async () => {
    const bytes = randomBytes(READ + 5);
    const file = fileOf(bytes, isCold);
    const memory = new Uint8Array(2 * READ + 1).subarray(1);
    expect(Buffer.compare(await passed(file, memory), bytes)).toBe(0);
  });

  test('that is cut short is an error', async () => {
    const file = fileOf(randomBytes(2 * READ), isCold);
    truncateSync(file.path, READ + 10);
    await expect(passed(file, directMemory(READ, file.path))).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
      message: expect.stringContaining(`found ${READ + 10}`),
    });
  });

  test('that is cut short is one error, though several reads fail', async () => {
    const file = fileOf(randomBytes(4 * READ), isCold);
    truncateSync(file.path, READ);
    await expect(passed(file, directMemory(4 * READ, file.path))).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CHANGED',
    });
  });

  test('is read whole, in order, by way of memory or not', async () => {
    const bytes = randomBytes(3 * READ + 5);
    const file = fileOf(bytes, isCold);
    const memory = directMemory(2 * READ, file.path);
    const pieces: Uint8Array[] = [];
    const use = async (begin: number, end: number): Promise<void> => {
      pieces.push(memory.slice(begin, end));
    };
    const useCached = async (begin: number, end: number): Promise<void> => {
      const piece = new Uint8Array(end - begin);
      pieces.push(piece);
      readSync(file.fd, piece, 0, piece.length, begin);
    };
    await passOver(file, memory, use, { useCached });
    expect(Buffer.compare(Buffer.concat(pieces), bytes)).toBe(0);
  });

  test('gives back its descriptors, also after an error', async () => {
    const file = fileOf(randomBytes(3 * READ), isCold);
    const before = openDescriptors();
    expect(before).toHaveLength(1);
    const memory = directMemory(2 * READ, file.path);
    await passed(file, memory);
    const used = passOver(file, memory, () => Promise.reject(new Error('enough')));
    await expect(used).rejects.toThrow('enough');
    expect(openDescriptors()).toEqual(before);
  });
});

test('what was not in the page cache does not come into it', async ({ skip }) => {
  const file = fileOf(randomBytes(3 * READ), true);
  skip(cachedBytes(file) !== 0, 'it cannot be dropped, or nobody knows');
  await passed(file, directMemory(2 * READ, file.path));
  expect(cachedBytes(file)).toBeLessThan(READ);
});

test('memory begins at a huge page, where there are any', () => {
  const load = loadAddon();
  if (!('addon' in load)) return;
  const memory = directMemory(2 * READ, undefined);
  expect(memory.length).toBe(2 * READ);
  // Nothing lies before the first one.
  expect(load.addon.hugePages(memory) ?? 0).toBe(0);
  expect(load.addon.hugePages(new Uint8Array(2 ** 20))).toBeNull();
});
