/** Ranges of a file that are near each other, fetched as one. */

import type { FileRange } from './opened-file.js';

/** Gaps of up to this length are fetched too: that is cheaper than another call. */
const MAX_GAP_BYTE_LENGTH = 2 ** 16;

/** The ranges in the order of the file; neighbours, and nearly neighbours, become one. */
export function mergeRanges(ranges: readonly FileRange[]): FileRange[] {
  const merged: { position: number; byteLength: number }[] = [];
  for (const { position, byteLength } of [...ranges].sort((a, b) => a.position - b.position)) {
    const last = merged.at(-1);
    if (byteLength === 0) continue;
    if (last !== undefined && position <= last.position + last.byteLength + MAX_GAP_BYTE_LENGTH) {
      last.byteLength = Math.max(last.byteLength, position + byteLength - last.position);
    } else {
      merged.push({ position, byteLength });
    }
  }
  return merged;
}
