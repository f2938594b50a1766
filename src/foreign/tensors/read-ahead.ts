/**
 * Reads ahead when windows follow one another: where neighbours lie far apart in the file, a short window costs
 * nearly as much as a long one.
 */

import type { Work } from '../../work/work.js';

/** Fills `target` with the bytes from `position` on, in short steps between which other work may run. */
export type StepFill = (target: Uint8Array, position: number) => Work<void>;

/**
 * Longest block. Each block of a transposed matrix reads all its rows, which is the price of little memory.
 */
const MAX_BLOCK_BYTE_LENGTH = 16 * 2 ** 20;

/** Caps read-ahead at this many times what was read so far. */
const GROWTH = 4;

interface Block {
  readonly begin: number;
  readonly bytes: Uint8Array;
}

/**
 * Fills a window that begins where the last one ended from a block, and makes the next block there. Makes other
 * windows by themselves. Keeps the block until its last byte was read.
 *
 * @param byteLength of all bytes
 * @param units lengths of items, rows and so on, in bytes, longest first, each a multiple of the next. Blocks
 *   begin at items and end at the longest ones that fit.
 */
export function readAhead(fill: StepFill, byteLength: number, units: readonly number[]): StepFill {
  const itemByteLength = units.at(-1) ?? 1;
  let block: Block | undefined;
  // Bytes of the consecutive windows so far.
  let first = 0;
  let end = 0;

  const makeBlock = function* (at: number, wanted: number): Work<Block | undefined> {
    const begin = at - (at % itemByteLength);
    const longest = Math.min(MAX_BLOCK_BYTE_LENGTH, GROWTH * (at - first));
    const unit = units.find((length) => length <= longest) ?? itemByteLength;
    const last = Math.min(begin + longest, byteLength);
    const length = last - (last === byteLength ? 0 : last % unit) - begin;
    if (length <= wanted) return undefined;
    const memory = block?.bytes.buffer;
    block = undefined;
    const bytes =
      memory !== undefined && memory.byteLength >= length
        ? new Uint8Array(memory, 0, length)
        : new Uint8Array(length);
    yield* fill(bytes, begin);
    return { begin, bytes };
  };

  return function* (target, position) {
    if (position > end || position < (block?.begin ?? end)) {
      block = undefined;
      first = position;
    }
    for (let done = 0; done < target.length; ) {
      const at = position + done;
      const part = block?.bytes.subarray(at - block.begin, at - block.begin + target.length - done);
      if (part !== undefined && part.length > 0) {
        target.set(part, done);
        done += part.length;
        continue;
      }
      block = yield* makeBlock(at, target.length - done);
      if (block !== undefined) continue;
      yield* fill(target.subarray(done), at);
      done = target.length;
    }
    end = position + target.length;
    if (end === byteLength) block = undefined;
  };
}
