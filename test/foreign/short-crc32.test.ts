import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { expect, test } from 'vitest';
import { crc32OfEntry } from '../../src/foreign/short-crc32.js';

test.each([0, 1, 2, 3, 255, 256, 4096, 65_535, 65_536, 65_537, 200_000])(
  'the CRC-32 of %s bytes is that of zlib',
  (length) => {
    const bytes = new Uint8Array(randomBytes(length));
    expect(crc32OfEntry(bytes)).toBe(crc32(bytes));
    expect(crc32OfEntry(bytes.fill(0xff))).toBe(crc32(bytes));
  },
);
