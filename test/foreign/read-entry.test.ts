/** Bytes of entries: exactly as many as declared, with the right CRC. */
import { deflateRawSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SafetensorsError } from '../../src/errors/errors.js';
import { inflateStart, readEntry } from '../../src/foreign/read-entry.js';
import type { ArchiveEntry } from '../../src/foreign/zip/archive.js';
import { codeOf, deflatedEntry } from './deflated-entry.js';
import { readerOf } from './zip/archives.js';

test('deflated bytes come back', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 3000 }),
      fc.integer({ min: 0, max: 9 }),
      (content, level) => {
        const stored = deflateRawSync(content, { level });
        const bytes = readEntry(readerOf(stored), deflatedEntry(stored, content), {});
        expect(Buffer.compare(bytes, content)).toBe(0);
      },
    ),
  );
});

test.each([0, 300, 2 ** 18, 2 ** 18 + 1])('%i stored bytes must have their CRC', (byteLength) => {
  const bytes = new Uint8Array(byteLength).map((_, at) => at * 167);
  const end = byteLength;
  const entry = { ...deflatedEntry(bytes, bytes), method: 'stored', begin: 0, end } as const;
  expect(readEntry(readerOf(bytes), entry, {})).toEqual(bytes);
  const read = (): unknown =>
    readEntry(readerOf(bytes), { ...entry, crc32: (entry.crc32 ?? 0) ^ 1 }, {});
  expect(codeOf(read)).toBe('SAFETENSORS_CHECKSUM_MISMATCH');
});

test('a stream that is longer, shorter, cut, followed by bytes or broken is refused', () => {
  const content = Buffer.from('weights '.repeat(50));
  const stored = deflateRawSync(content);
  const entry = deflatedEntry(stored, content);
  const read = (bytes: Uint8Array, changes: Partial<ArchiveEntry>) => (): unknown =>
    readEntry(readerOf(bytes), { ...entry, end: bytes.length, ...changes }, {});
  const invalid = 'SAFETENSORS_INVALID_ARCHIVE';
  expect(codeOf(read(stored, {}))).toBe('none');
  expect(codeOf(read(stored, { byteLength: content.length - 1 }))).toBe(invalid);
  expect(codeOf(read(stored, { byteLength: content.length + 1 }))).toBe(invalid);
  expect(codeOf(read(stored, { byteLength: 0 }))).toBe(invalid);
  expect(codeOf(read(stored.subarray(0, -1), {}))).toBe(invalid);
  expect(codeOf(read(Buffer.concat([stored, Buffer.of(0)]), {}))).toBe(invalid);
  expect(codeOf(read(Buffer.alloc(stored.length, 0xff), {}))).toBe(invalid);
  expect(codeOf(read(stored, { crc32: 1 }))).toBe('SAFETENSORS_CHECKSUM_MISMATCH');
});

test('a stream that becomes more than the declared length is refused', () => {
  const content = Buffer.alloc(1_000_000);
  const stored = deflateRawSync(content);
  const read = (): unknown =>
    readEntry(readerOf(stored), { ...deflatedEntry(stored, content), byteLength: 1000 }, {});
  expect(codeOf(read)).toBe('SAFETENSORS_INVALID_ARCHIVE');
});

test('what few bytes cannot become is refused before there is memory for it', () => {
  const content = Buffer.from('weights');
  const stored = deflateRawSync(content);
  const entry = { ...deflatedEntry(stored, content), byteLength: 2 ** 32 - 1 };
  const read = (): unknown => readEntry(readerOf(stored), entry, {});
  expect(codeOf(read)).toBe('SAFETENSORS_INVALID_ARCHIVE');
  expect(read).toThrow(
    `inflate to ${2 ** 32 - 1}, found bytes for at most ${1032 * stored.length}`,
  );
  const most = deflateRawSync(Buffer.alloc(10_000_000), { level: 9 });
  expect(1e7 / most.length).toBeLessThan(1032);
});

test('more bytes than a chunk of zlib or a buffer may have are refused by this package', () => {
  const content = Buffer.alloc(1000);
  const stored = Buffer.concat([
    Buffer.alloc(5_000_000, '000000ffff', 'hex'),
    deflateRawSync(content),
  ]);
  for (const byteLength of [2 ** 32, 2 ** 32 + 1000, 5e9]) {
    const entry = { ...deflatedEntry(stored, content), byteLength };
    const read = (): unknown =>
      readEntry(readerOf(stored), entry, {}, { maxInflatedByteLength: 1e10 });
    expect(read).toThrow(SafetensorsError);
    expect(read).toThrow(/found 1000$|not enough memory for a copy of \d+ bytes/);
  }
});

test('the limit of inflated bytes counts before any is inflated', () => {
  const content = Buffer.alloc(1000);
  const stored = deflateRawSync(content);
  const read = (): unknown =>
    readEntry(readerOf(stored), deflatedEntry(stored, content), {}, { maxInflatedByteLength: 999 });
  expect(codeOf(read)).toBe('SAFETENSORS_FOREIGN_LIMIT');
  expect(read).toThrow('maxInflatedByteLength');
});

test('the start of a stream gives the start of the bytes', () => {
  const content = Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * i) % 251));
  const stored = deflateRawSync(content);
  const entry = deflatedEntry(stored, content);
  for (const length of [1, 10, 200, 1000, stored.length]) {
    const start = inflateStart(stored.subarray(0, length), 5000, entry, {});
    expect(Buffer.compare(start, content.subarray(0, start.length))).toBe(0);
  }
  expect(inflateStart(stored, 5000, entry, {}).length).toBe(content.length);
});

test('a start that becomes more than the most is refused, whatever nothing stands before it', () => {
  const content = Buffer.alloc(1_000_000);
  const nothing = Buffer.from('000000ffff'.repeat(1000), 'hex');
  const stored = Buffer.concat([nothing, deflateRawSync(content)]);
  const entry = deflatedEntry(stored, content);
  const start = (most: number) => (): unknown => inflateStart(stored, most, entry, {});
  expect(codeOf(start(1_000_000))).toBe('none');
  expect(codeOf(start(999_999))).toBe('SAFETENSORS_FOREIGN_LIMIT');
});
