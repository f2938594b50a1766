/** Deflated entries as storages: inflated once and kept while the file is open, or piece by piece in order. */
import { crc32, deflateRawSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { ForeignShard } from '../../src/foreign/foreign-shard.js';
import { InflatedEntries, type InflatedStorage } from '../../src/foreign/inflated-data.js';
import { tensorData } from '../../src/foreign/tensor-data.js';
import type { ArchiveEntry } from '../../src/foreign/zip/archive.js';
import type { ArchiveLimits } from '../../src/foreign/zip/limits.js';
import { MemoryStorage } from '../../src/tensor/storage/memory.js';
import type { Storage } from '../../src/tensor/storage/storage.js';

const VALUES = Uint8Array.from({ length: 6 }, (_, i) => i);
const DEFLATED = new Uint8Array(deflateRawSync(VALUES));

const ENTRY = {
  name: 'entry',
  method: 'deflated',
  begin: 0,
  end: DEFLATED.length,
  byteLength: VALUES.length,
  crc32: crc32(VALUES),
} as const;

/** An archive in memory; `reads` counts its reads. */
function archive(): { storage: Storage; reads: () => number } {
  let count = 0;
  const storage = {
    path: 'archive',
    byteLength: DEFLATED.length,
    closed: false,
    readInto: (target: Uint8Array) => {
      count++;
      target.set(DEFLATED);
    },
    close: () => {},
  } as unknown as Storage;
  return { storage, reads: () => count };
}

test('bytes are kept until the file is closed, those of strided tensors too', () => {
  const { storage, reads } = archive();
  const entries = new InflatedEntries(storage, {});
  const held = entries.dataOf(ENTRY);
  const shape = [3, 2];
  const layout = { itemByteLength: 1, shape, strides: [1, 3], offset: 0, byteLength: 6 };
  const data = tensorData(held, layout, undefined);
  const memory = { storage: held, storageByteLength: 6, byteOffset: 0 };
  const file = new ForeignShard(storage, [{ name: 't', dtype: 'U8', shape, ...memory, data }]);
  const target = new Uint8Array(6);
  for (let i = 0; i < 3; i++) data.storage.readInto?.(target, 0);
  expect([[...target], reads()]).toEqual([[0, 3, 1, 4, 2, 5], 1]);
  file.close();
  entries.dataOf(ENTRY).storage.readInto?.(target, 0);
  expect([[...target], reads()]).toEqual([[...VALUES], 2]);
});

// Longer than a chunk, deflated too: half of it is hardly compressible.
const content = Buffer.alloc(3_000_000, 'weights ');
for (let i = 0; i < 1_500_000; i++) content[i] = (Math.imul(i, 2_654_435_761) >>> 13) & 0xff;
const deflated = deflateRawSync(content);
const entry: ArchiveEntry = {
  name: 'data/0',
  method: 'deflated',
  begin: 5,
  end: 5 + deflated.length,
  byteLength: content.length,
  crc32: crc32(content),
};

async function inflate(
  step: number,
  { stored = deflated, begin = 0, limits = {}, ...changes }: Changes = {},
): Promise<Buffer> {
  const archive = Buffer.concat([Buffer.alloc(5, 0xff), stored]);
  const changed = { ...entry, end: archive.length, ...changes };
  const entries = new InflatedEntries(new MemoryStorage(archive, 2 ** 32), limits);
  const fill = (entries.dataOf(changed).storage as InflatedStorage).inOrder(begin);
  const target = Buffer.alloc(changed.byteLength - begin);
  const pieces: (void | Promise<void>)[] = [];
  for (let at = 0; at < target.length; at += step) {
    pieces.push(fill(target.subarray(at, at + step), at));
  }
  const results = await Promise.allSettled(pieces);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
  return target;
}

interface Changes extends Partial<ArchiveEntry> {
  readonly stored?: Buffer;
  readonly begin?: number;
  readonly limits?: ArchiveLimits;
}

test.each([1_000_000, 999_999, 4_000_000, 70_000])('pieces of %i bytes', async (step) => {
  expect(Buffer.compare(await inflate(step), content)).toBe(0);
  const rest = await inflate(step, { begin: 300_000 });
  expect(Buffer.compare(rest, content.subarray(300_000))).toBe(0);
});

test.each<[string, Changes, string]>([
  ['longer', { byteLength: content.length - 1 }, 'INVALID_ARCHIVE'],
  ['shorter', { byteLength: content.length + 1 }, 'INVALID_ARCHIVE'],
  ['cut', { stored: deflated.subarray(0, -1) }, 'INVALID_ARCHIVE'],
  ['followed by bytes', { stored: Buffer.concat([deflated, Buffer.of(0)]) }, 'INVALID_ARCHIVE'],
  ['followed by many', { stored: Buffer.concat([deflated, deflated]) }, 'INVALID_ARCHIVE'],
  ['broken', { stored: Buffer.alloc(deflated.length, 0xff) }, 'INVALID_ARCHIVE'],
  ['another one', { crc32: 1 }, 'CHECKSUM_MISMATCH'],
  ['above the limit', { limits: { maxInflatedByteLength: 2_999_999 } }, 'FOREIGN_LIMIT'],
])('a stream that is %s is refused', async (_, changes, code) => {
  for (const step of [1_000_000, 4_000_000]) {
    await expect(inflate(step, changes)).rejects.toMatchObject({ code: `SAFETENSORS_${code}` });
  }
});
