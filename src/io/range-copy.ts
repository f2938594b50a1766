/** Ranges of files, one after the other, into a file: long ones within the kernel, short ones together. */

import { addon } from '../addon/addon.js';
import { copyRange, copyRangeSync, type WrittenFile } from './file-copy.js';
import type { ReadFile } from './opened-file.js';

/** Bytes of another file, `byteLength` of them from `position` on. */
export interface CopiedRange {
  readonly file: ReadFile;
  readonly position: number;
  readonly byteLength: number;
}

/** Descriptor, position and length of every range. */
function numbersOf(ranges: readonly CopiedRange[]): Float64Array {
  const numbers = new Float64Array(3 * ranges.length);
  for (const [i, { file, position, byteLength }] of ranges.entries()) {
    numbers.set([file.fd, position, byteLength], 3 * i);
  }
  return numbers;
}

/** What is left of the ranges behind `done` bytes, and where it goes. */
function* rest(
  ranges: readonly CopiedRange[],
  targetPosition: number,
  done: number,
): Generator<CopiedRange & { readonly to: number }, void, void> {
  let begin = 0;
  for (const { file, position, byteLength } of ranges) {
    const skipped = Math.min(Math.max(done - begin, 0), byteLength);
    const length = byteLength - skipped;
    const to = targetPosition + begin + skipped;
    if (length > 0) yield { file, position: position + skipped, byteLength: length, to };
    begin += byteLength;
  }
}

/**
 * Copies the ranges to `targetPosition` and behind. Several must be at most 1 024 of 16 MiB together:
 * they go through a buffer of their length, and what could not be had that way one by one.
 *
 * @throws As {@link copyRange}
 */
export async function copyRanges(
  ranges: readonly CopiedRange[],
  target: WrittenFile,
  targetPosition: number,
): Promise<void> {
  let done = 0;
  const native = ranges.length > 1 ? addon() : undefined;
  if (native !== undefined) {
    const gathering = native.gatherRangesAsync(numbersOf(ranges), target.fd, targetPosition);
    // The copy of what is left fails for the same reason, if there is one, and names the file.
    done = await gathering.catch(() => 0);
  }
  for (const { file, position, byteLength, to } of rest(ranges, targetPosition, done)) {
    await copyRange(file, position, target, to, byteLength);
  }
}

/** As `copyRanges`, on this thread. */
export function copyRangesSync(
  ranges: readonly CopiedRange[],
  target: WrittenFile,
  targetPosition: number,
): void {
  let done = 0;
  const native = ranges.length > 1 ? addon() : undefined;
  try {
    done = native?.gatherRanges(numbersOf(ranges), target.fd, targetPosition) ?? 0;
  } catch {
    // As above.
  }
  for (const { file, position, byteLength, to } of rest(ranges, targetPosition, done)) {
    copyRangeSync(file, position, target, to, byteLength);
  }
}
