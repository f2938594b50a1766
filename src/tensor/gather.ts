/** Carries out strided copies between two arrays. */

import { argumentRangeError } from '../errors/arguments.js';
import { extentOf, type StridedCopy, type StridedLoop } from './strided-copy.js';

/** From this many words per run on, a call of `TypedArray.set` (about 60 ns) is faster than a loop. */
const LONG_RUN_WORDS = 32;

/**
 * Side of the tiles, in bytes, in which a source that runs across the result (a transposed matrix) is copied:
 * a tile of the source and one of the result fit into the cache.
 */
const TILE_BYTE_LENGTH = 128;

/** A loop of one round. */
export const ONCE: StridedLoop = { count: 1, from: 0, to: 0 };

/**
 * Copies the selected bytes to `target`, the first of them to its byte `targetByteOffset`.
 *
 * @param source holds the source's bytes from `sourceByteOffset` on, at least the copy's extent
 * @throws RangeError `ERR_OUT_OF_RANGE` when the source lacks a selected byte, or the target is too
 *   short
 */
export function gather(
  copy: StridedCopy,
  source: Uint8Array,
  sourceByteOffset: number,
  target: Uint8Array,
  targetByteOffset = 0,
): void {
  if (copy.byteLength === 0) return;
  const { begin, end } = extentOf(copy);
  if (begin < sourceByteOffset || end > sourceByteOffset + source.length) {
    const held = `${sourceByteOffset} to ${sourceByteOffset + source.length}`;
    throw argumentRangeError('source', `bytes ${begin} to ${end} of the tensor`, `bytes ${held}`);
  }
  const first = copy.byteOffset - sourceByteOffset;
  let needed = targetByteOffset + copy.runByteLength;
  // Every position is a sum of multiples of these numbers, so the lowest bit set in any of them aligns all.
  let bits = source.byteOffset | target.byteOffset | first | targetByteOffset | copy.runByteLength;
  for (const { count, from, to } of copy.loops) {
    needed += (count - 1) * to;
    bits |= from | to;
  }
  if (needed > target.length) {
    throw argumentRangeError('target', `at least ${needed} bytes long`, target.length);
  }

  // The widest word that everything is aligned to. From here on, positions and lengths count words.
  const width = (bits & 1) !== 0 ? 1 : (bits & 2) !== 0 ? 2 : 4;
  const fromWords = wordsOfWidth(source, width);
  const toWords = wordsOfWidth(target, width);
  const outside = copy.loops.map(
    ({ count, from, to }): StridedLoop => ({ count, from: from / width, to: to / width }),
  );
  // The inner loop writes neighbouring words; the loop around it reads neighbouring words, if any loop does.
  const inner = outside.pop() ?? ONCE;
  const nearest = outside.reduce(
    (best, { from }, i) =>
      Math.abs(from) <= Math.abs((outside[best] as StridedLoop).from) ? i : best,
    0,
  );
  const [outer = ONCE] = outside.splice(nearest, 1);
  const run = copy.runByteLength / width;
  const visit = (depth: number, from: number, to: number): void => {
    const loop = outside[depth];
    if (loop === undefined) {
      copyPlane(fromWords, from, toWords, to, outer, inner, run);
      return;
    }
    for (let i = 0; i < loop.count; i++) visit(depth + 1, from + i * loop.from, to + i * loop.to);
  };
  visit(0, first / width, targetByteOffset / width);
}

/** Integers keep every bit pattern; floats may change NaNs. */
type Words = Uint8Array | Uint16Array | Uint32Array;

function wordsOfWidth({ buffer, byteOffset, length }: Uint8Array, width: 1 | 2 | 4): Words {
  const count = Math.floor(length / width);
  if (width === 4) return new Uint32Array(buffer, byteOffset, count);
  return width === 2
    ? new Uint16Array(buffer, byteOffset, count)
    : new Uint8Array(buffer, byteOffset, count);
}

/** Copies the runs of the two innermost loops, in tiles where source and result cross. */
function copyPlane(
  from: Words,
  fromAt: number,
  to: Words,
  toAt: number,
  outer: StridedLoop,
  inner: StridedLoop,
  run: number,
): void {
  const isCrossed = Math.abs(outer.from) < Math.abs(inner.from);
  const tile = Math.max(1, Math.floor(TILE_BYTE_LENGTH / (run * from.BYTES_PER_ELEMENT)));
  // One tile is enough when source and result go in the same order.
  const [outerTile, innerTile] = isCrossed ? [tile, tile] : [outer.count, inner.count];
  for (let i = 0; i < outer.count; i += outerTile) {
    const outerEnd = Math.min(i + outerTile, outer.count);
    for (let j = 0; j < inner.count; j += innerTile) {
      const count = Math.min(innerTile, inner.count - j);
      for (let row = i; row < outerEnd; row++) {
        const read = fromAt + row * outer.from + j * inner.from;
        const written = toAt + row * outer.to + j * inner.to;
        copyRow(from, read, inner.from, to, written, inner.to, count, run);
      }
    }
  }
}

function copyRow(
  from: Words,
  fromAt: number,
  fromStep: number,
  to: Words,
  toAt: number,
  toStep: number,
  count: number,
  run: number,
): void {
  let read = fromAt;
  let written = toAt;
  if (run === 1 && toStep === 1) {
    // For neighbouring words, as in slices, this loop is a tenth faster than the next.
    for (let i = 0; i < count; i++, read += fromStep) to[toAt + i] = from[read] as number;
  } else if (run === 1) {
    for (let i = 0; i < count; i++, read += fromStep, written += toStep) {
      to[written] = from[read] as number;
    }
  } else if (run < LONG_RUN_WORDS) {
    for (let i = 0; i < count; i++, read += fromStep, written += toStep) {
      for (let k = 0; k < run; k++) to[written + k] = from[read + k] as number;
    }
  } else {
    for (let i = 0; i < count; i++, read += fromStep, written += toStep) {
      to.set(from.subarray(read, read + run), written);
    }
  }
}
