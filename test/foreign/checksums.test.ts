/** Checksums of an archive: compared when asked for, in pieces, with an abort. */
import { writeFileSync } from 'node:fs';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
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
