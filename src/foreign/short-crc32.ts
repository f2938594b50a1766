/** The CRC-32 of few bytes, as of the pickle in a PyTorch checkpoint, without zlib: loading that takes Node 2 ms. */

import { crc32 } from 'node:zlib';

/** More bytes are left to zlib, which takes less time for them from the first call. */
const MAX_SHORT_BYTE_LENGTH = 2 ** 16;

/** The polynomial without its highest power; bit 31 is the power 0. */
const POLYNOMIAL = 0xedb88320;

/** What each byte does to the remainder. Computed on first use. */
let remainders: Int32Array | undefined;

/** Returns the CRC-32 of the bytes, as `crc32` of zlib does. */
export function crc32OfEntry(bytes: Uint8Array): number {
  if (bytes.length > MAX_SHORT_BYTE_LENGTH) return crc32(bytes);
  remainders ??= Int32Array.from({ length: 256 }, (_, byte) => remainderOf(byte));
  let remainder = -1;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i] as number;
    remainder = (remainder >>> 8) ^ (remainders[(remainder ^ byte) & 0xff] as number);
  }
  return ~remainder >>> 0;
}

function remainderOf(byte: number): number {
  let remainder = byte;
  for (let bit = 0; bit < 8; bit++) {
    remainder = remainder & 1 ? (remainder >>> 1) ^ POLYNOMIAL : remainder >>> 1;
  }
  return remainder;
}
