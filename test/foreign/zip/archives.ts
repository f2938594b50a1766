/** Archives in memory: readers of them, and their files as this package reads them. */

import { readEntry } from '../../../src/foreign/read-entry.js';
import type { ByteReader } from '../../../src/foreign/zip/archive.js';
import { readArchive } from '../../../src/foreign/zip/read-archive.js';

/** A reader that fails when it is asked for bytes beyond its end. */
export function readerOf(bytes: Uint8Array): ByteReader {
  return {
    byteLength: bytes.length,
    read: (begin, end) => {
      if (begin < 0 || begin > end || end > bytes.length) throw new Error(`${begin} to ${end}`);
      return new Uint8Array(bytes.subarray(begin, end));
    },
  };
}

/** Names and bytes of all files, in the order of the archive. */
export function filesOf(bytes: Uint8Array): [string, string][] {
  const reader = readerOf(bytes);
  const { entries } = readArchive(reader, {});
  return Array.from(entries, ([name, entry]) => [name, hex(readEntry(reader, entry, {}))]);
}

/** Bytes as text. */
export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}
