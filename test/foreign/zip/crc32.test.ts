import { crc32 as zlibCrc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { crc32 } from '../../../src/foreign/zip/crc32.js';

test.each([0, 1, 2, 255, 4096, 100_001])('The CRC-32 of %i bytes is that of zlib', (byteLength) => {
  const bytes = Uint8Array.from({ length: byteLength }, (_, at) => (at * 167 + (at >> 8)) & 0xff);
  expect(crc32(bytes)).toBe(zlibCrc32(bytes));
});

test('Every value of a byte counts, and the highest bit makes no number negative', () => {
  for (let byte = 0; byte < 256; byte++) {
    const bytes = Uint8Array.of(byte, 255 - byte);
    expect(crc32(bytes)).toBe(zlibCrc32(bytes));
  }
});
