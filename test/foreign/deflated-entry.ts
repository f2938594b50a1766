/** An entry of deflated bytes. */
import { crc32 } from 'node:zlib';
import { FormatError } from '../../src/errors/errors.js';
import type { ArchiveEntry } from '../../src/foreign/zip/archive.js';

/** The entry of a file that has nothing but the deflated bytes. */
export function deflatedEntry(stored: Uint8Array, content: Uint8Array): ArchiveEntry {
  return {
    name: 'data/0',
    method: 'deflated',
    begin: 0,
    end: stored.length,
    byteLength: content.length,
    crc32: crc32(content),
  };
}

/** The code of the error of reading, or `none`. */
export function codeOf(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    if (error instanceof FormatError) return error.code;
    throw error;
  }
  return 'none';
}
