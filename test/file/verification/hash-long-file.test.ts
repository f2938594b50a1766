/** All hashes of a file that is long enough for two threads, from the page cache and from the disk. */
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type HashedLayout,
  hashOpened,
  type LongHash,
} from '../../../src/file/verification/hash-file.js';
import { dropFromPageCache } from '../../support/page-cache.js';

const MIB = 2 ** 20;
const DATA_START = 12_345;
const LEGACY_BEGIN = MIB + 777;

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
const path = join(folder, 'long.bin');
const bytes = new Uint8Array(66 * MIB + 5);

beforeAll(() => {
  const pattern = randomBytes(MIB + 1);
  for (let at = 0; at < bytes.length; at += pattern.length) {
    bytes.set(pattern.subarray(0, bytes.length - at), at);
  }
  writeFileSync(path, bytes);
});
afterAll(() => rmSync(folder, { recursive: true }));

/** By the range: the tests compare the same ones again and again. */
const digests = new Map<string, string>();
function sha256(begin: number, end: number): string {
  const key = `${begin}-${end}`;
  const hex =
    digests.get(key) ?? createHash('sha256').update(bytes.subarray(begin, end)).digest('hex');
  digests.set(key, hex);
  return hex;
}

let sum: string | undefined;
function wholeCrc32(): string {
  sum ??= crc32(bytes).toString(16).padStart(8, '0');
  return sum;
}

const ENDS = [0, 7, 7, 3 * MIB, 20 * MIB, 20 * MIB + 1, 50 * MIB, bytes.length - DATA_START];
const RANGES = ENDS.slice(1).map((end, i) => {
  return { name: `t${i}`, begin: DATA_START + (ENDS[i] as number), end: DATA_START + end };
});

async function hashed(layout: HashedLayout, wanted: ReadonlySet<LongHash> | undefined) {
  const fd = openSync(path, 'r');
  let count = 0;
  try {
    const onBytes = (more: number): void => {
      count += more;
    };
    const options = { signal: undefined, onBytes, wanted };
    return await hashOpened({ fd, path, byteLength: bytes.length }, layout, options);
  } finally {
    closeSync(fd);
    expect(count).toBe(bytes.length);
  }
}

describe.each([
  ['in the page cache', false],
  ['not in the page cache', true],
])('a long file that is %s', (_, isCold) => {
  const choices: (readonly LongHash[])[] = [
    ['sha256', 'dataSha256', 'crc32'],
    ['sha256'],
    ['dataSha256'],
    ['crc32'],
    [],
  ];
  test.each(isCold ? [choices[0] ?? [], []] : choices)(
    'has the right hashes: %s %s %s',
    async (...names) => {
      const wanted = new Set(names);
      for (const ranges of [[], RANGES]) {
        for (const legacyBegin of [null, LEGACY_BEGIN]) {
          if (isCold) dropFromPageCache(path);
          const found = await hashed({ dataStart: DATA_START, legacyBegin, ranges }, wanted);
          expect({ ...found, ranges: [...found.ranges] }).toEqual({
            byteLength: bytes.length,
            sha256: wanted.has('sha256') ? sha256(0, bytes.length) : '',
            dataSha256: wanted.has('dataSha256') ? sha256(DATA_START, bytes.length) : '',
            autoV1: wanted.size > 0 ? sha256(MIB, MIB + 65_536).slice(0, 8) : '',
            legacy:
              legacyBegin === null ? null : sha256(legacyBegin, legacyBegin + 65_536).slice(0, 8),
            crc32: wanted.has('crc32') ? wholeCrc32() : '',
            ranges: ranges.map(({ name, begin, end }) => [name, sha256(begin, end)]),
          });
        }
      }
    },
  );
});

test('a long file that is shorter than when it was opened', async () => {
  truncateSync(path, 40 * MIB);
  try {
    for (const wanted of [undefined, new Set<LongHash>()]) {
      const layout = { dataStart: DATA_START, legacyBegin: null, ranges: RANGES };
      const fd = openSync(path, 'r');
      const options = { signal: undefined, onBytes: () => {}, wanted };
      const hashing = hashOpened({ fd, path, byteLength: bytes.length }, layout, options);
      await expect(hashing).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED', path });
      closeSync(fd);
    }
  } finally {
    writeFileSync(path, bytes);
  }
});

test('a signal ends the hashing', async () => {
  const fd = openSync(path, 'r');
  const controller = new AbortController();
  const onBytes = (): void => controller.abort(new Error('enough'));
  const layout = { dataStart: DATA_START, legacyBegin: null, ranges: RANGES };
  const options = { signal: controller.signal, onBytes };
  const hashing = hashOpened({ fd, path, byteLength: bytes.length }, layout, options);
  await expect(hashing).rejects.toThrow('enough');
  closeSync(fd);
});
