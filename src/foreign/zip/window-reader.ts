/** Reads short ranges in the order of the file with few reads: headers of small entries lie close together. */

import type { ByteReader } from './archive.js';

/** Returns bytes of the file as a view of shared memory; undefined for bytes outside of the file. */
export type Read = (begin: number, end: number) => Uint8Array<ArrayBuffer> | undefined;

/** A page; longer while windows follow one another. */
const SHORT_WINDOW_BYTE_LENGTH = 4096;
const MAX_WINDOW_BYTE_LENGTH = 64 * 1024;

/** Makes a reader for ranges in the order of the file. */
export function windowReader(file: ByteReader): Read {
  let windowBegin = 0;
  let window = new Uint8Array(0);
  return (begin, end) => {
    if (begin < 0 || end > file.byteLength) return undefined;
    const windowEnd = windowBegin + window.length;
    if (begin < windowBegin || end > windowEnd) {
      const isNext = begin >= windowBegin && begin - windowEnd < SHORT_WINDOW_BYTE_LENGTH;
      const wanted = isNext ? 2 * window.length : 0;
      const length = Math.min(Math.max(wanted, SHORT_WINDOW_BYTE_LENGTH), MAX_WINDOW_BYTE_LENGTH);
      window = file.read(begin, Math.min(Math.max(end, begin + length), file.byteLength));
      windowBegin = begin;
    }
    return window.subarray(begin - windowBegin, end - windowBegin);
  };
}
