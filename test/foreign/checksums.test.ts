/** Checksums of an archive: compared when asked for, in pieces, with an abort. */
import {
  closeSync,
  mkdtempSync,
  openSync,
  rmSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32, deflateRawSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { verifyEntries } from '../../src/foreign/checksums.js';
import type { ArchiveEntry } from '../../src/foreign/zip/archive.js';
import { openRegularFile } from '../../src/platform/io/opened-file.js';
import { openStorage } from '../../src/platform/storage/open.js';
import type { LeasableStorage } from '../../src/tensor/storage/storage.js';
import { runSync } from '../../src/work/work.js';
import { temporaryPath } from '../support/make-file.js';

const bytes = new Uint8Array(9_000_000);
for (let i = 0; i < bytes.length; i++) bytes[i] = i * 7;

function entryOf(begin: number, end: number): ArchiveEntry {
  const content = bytes.subarray(begin, end);
  return {
    name: `${begin}`,
    method: 'stored',
    begin,
    end,
    byteLength: content.length,
    crc32: crc32(content),
  };
}

const right = [entryOf(0, 10), entryOf(10, 8_999_999), entryOf(8_999_999, 8_999_999)];

function storageOf(storage: 'mmap' | 'read'): LeasableStorage {
  const path = temporaryPath('archive');
  writeFileSync(path, bytes);
  const file = runSync(openRegularFile(path, path));
  return runSync(openStorage(file, new Uint8Array(), { storage }));
}

test.each(['mmap', 'read'] as const)('right ones pass, with the storage %s', async (kind) => {
  const storage = storageOf(kind);
  let seen = 0;
  const onProgress = (progress: { bytes: number }): void => {
    seen = progress.bytes;
  };
  await verifyEntries(storage, { entries: right, limits: {} }, { onProgress });
  expect(seen).toBe(8_999_999);
});

test.each(['mmap', 'read'] as const)('an empty one passes, with the storage %s', async (kind) => {
  const entries = [entryOf(5, 5), entryOf(8_000_000, 8_000_000)];
  await expect(verifyEntries(storageOf(kind), { entries, limits: {} }, {})).resolves.toBe(
    undefined,
  );
});

test('a wrong one names its entry, even without bytes', async () => {
  const storage = storageOf('read');
  for (const [at, entry] of right.entries()) {
    const entries = right.with(at, { ...entry, crc32: (entry.crc32 ?? 0) ^ 1 });
    await expect(verifyEntries(storage, { entries, limits: {} }, {})).rejects.toMatchObject({
      code: 'SAFETENSORS_CHECKSUM_MISMATCH',
      message: expect.stringContaining(`entry "${entry.name}"`),
    });
  }
});

test('an abort ends it', async () => {
  const storage = storageOf('read');
  const signal = AbortSignal.abort(new Error('enough'));
  await expect(verifyEntries(storage, { entries: right, limits: {} }, { signal })).rejects.toThrow(
    'enough',
  );
});

describe.each([
  ['mapped, read on this thread', 66, 'mmap'],
  ['read on this thread', 66, 'read'],
  ['which threads read', 257, 'read'],
] as const)('a long archive, %s', (_, mebibytes, storage) => {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  const path = join(folder, 'long.zip');
  const content = new Uint8Array(mebibytes * 2 ** 20 + 3);
  // The rest is a hole of the file.
  const filled = content.subarray(0, 66 * 2 ** 20);
  for (let at = 0; at < filled.length; at += 1021) filled[at] = at / 1021;
  const writeContent = (): void => {
    writeFileSync(path, filled);
    truncateSync(path, content.length);
  };
  const deflated = deflateRawSync(content.subarray(0, 100_000));
  /** Short and empty entries with gaps between them, long ones around the pieces of 4 MiB, and a deflated one. */
  const entries: ArchiveEntry[] = [];
  beforeAll(() => {
    const add = (begin: number, end: number): void => {
      const bytes = content.subarray(begin, end);
      entries.push({ ...partOf(bytes, begin), name: `${entries.length}` });
    };
    for (let i = 0; i < 2500; i++) add(i * 300, i * 300 + (i % 5) * 60);
    content.set(deflated, 800_000);
    const end = 800_000 + deflated.length;
    const inflated = content.subarray(0, 100_000);
    entries.push({
      ...{ ...partOf(inflated, 800_000), end, method: 'deflated' },
      name: `${entries.length}`,
    });
    for (const [begin, end] of [
      [2 ** 20, 2 ** 20 + 1],
      [2 ** 21, 2 ** 21 + 2 ** 22],
      [7 * 2 ** 20, 30 * 2 ** 20 + 1],
      [30 * 2 ** 20 + 1, content.length - 1],
      [content.length, content.length],
    ] as const) {
      add(begin, end);
    }
    // The stored entries before it may have its bytes.
    for (const [i, entry] of entries.entries()) {
      if (entry.method === 'stored') {
        entries[i] = { ...entry, crc32: crc32(content.subarray(entry.begin, entry.end)) };
      }
    }
    writeContent();
  });
  afterAll(() => rmSync(folder, { recursive: true }));

  const opened = (): LeasableStorage => {
    const file = runSync(openRegularFile(path, path));
    return runSync(openStorage(file, new Uint8Array(), { storage }));
  };

  test('passes, and reports all of its bytes', async () => {
    const totalBytes = entries.reduce((sum, { begin, end }) => sum + end - begin, 0);
    const onProgress = vi.fn();
    await verifyEntries(opened(), { entries, limits: {} }, { onProgress });
    expect(onProgress).toHaveBeenLastCalledWith({ bytes: totalBytes, totalBytes });
  });

  test('reports the wrong entries, in their order', async () => {
    const wrong = [0, 1, 1024, 2499, 2500, 2501, 2502, 2503, 2504, 2505];
    const changed = entries.map((entry, i) =>
      wrong.includes(i) ? { ...entry, crc32: (entry.crc32 ?? 0) ^ 0x80000000 } : entry,
    );
    const found: string[] = [];
    await verifyEntries(opened(), { entries: changed, limits: {} }, {}, (problem, { name }) => {
      expect(problem).toMatchObject({ code: 'SAFETENSORS_CHECKSUM_MISMATCH' });
      found.push(name);
    });
    expect(found).toEqual(wrong.map(String));
  });

  test('names an entry with one changed byte', async () => {
    for (const at of [7 * 2 ** 20, 30 * 2 ** 20, content.length - 2]) {
      writeByte(path, at, (content[at] as number) ^ 1);
      const verified = verifyEntries(opened(), { entries, limits: {} }, {});
      await expect(verified).rejects.toMatchObject({ code: 'SAFETENSORS_CHECKSUM_MISMATCH' });
      writeByte(path, at, content[at] as number);
    }
  });

  test('ends with the signal, and with the file', async () => {
    const controller = new AbortController();
    const { signal } = controller;
    const changed = entries.map((entry, i) => (i === 2500 ? { ...entry, crc32: 1 } : entry));
    const report = (): void => controller.abort(new Error('enough'));
    const aborted = verifyEntries(opened(), { entries: changed, limits: {} }, { signal }, report);
    await expect(aborted).rejects.toThrow('enough');
    const storage = opened();
    truncateSync(path, 40 * 2 ** 20);
    const truncated = verifyEntries(storage, { entries, limits: {} }, {});
    await expect(truncated).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
    writeContent();
  });
});

function partOf(bytes: Uint8Array, begin: number): Omit<ArchiveEntry, 'name'> {
  const byteLength = bytes.length;
  return { method: 'stored', begin, end: begin + byteLength, byteLength, crc32: crc32(bytes) };
}

function writeByte(path: string, position: number, byte: number): void {
  const fd = openSync(path, 'r+');
  writeSync(fd, Uint8Array.of(byte), 0, 1, position);
  closeSync(fd);
}
