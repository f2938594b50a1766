/**
 * Strided copies: which bytes to take from a source, and where they go, as for a slice of a tensor or for a
 * transposed tensor of another format. Everything is counted in bytes; dtypes play no role.
 *
 * The source need not be in memory as a whole: `extentOf` returns the range that is needed, `splitCopy` cuts a
 * copy into pieces whose ranges have a bounded length, and `windowOf` returns the part for some bytes of
 * the result. `gather` copies.
 */

import { type ByteRange, cut } from '../work/byte-ranges.js';

/** One loop of a strided copy: the bytes that a round adds to each of the two positions. */
export interface StridedLoop {
  /** Number of rounds, at least 2. */
  readonly count: number;
  /** To the position in the source; negative where a step reverses, 0 where bytes are repeated. */
  readonly from: number;
  /** To the position in the result: the length of one round of a whole copy. */
  readonly to: number;
}

/**
 * Bytes to copy: runs of `runByteLength` bytes. The first run is at `byteOffset` of the source, the others
 * where the nested loops lead. The result of a whole copy is dense, in C order; a piece fills its part of it.
 */
export interface StridedCopy {
  /** Number of bytes to copy; 0 for an empty selection. */
  readonly byteLength: number;
  /** Source position of the first byte of the result. */
  readonly byteOffset: number;
  /** Bytes that lie next to each other in the source and in the result. */
  readonly runByteLength: number;
  /**
   * Nested loops around the run, in the order of the result, outermost first, as few as possible. Without
   * loops the result is one run of the source.
   */
  readonly loops: readonly StridedLoop[];
}

/** A part of a copy. */
export interface CopyPiece {
  /** The copy that makes this part. */
  readonly copy: StridedCopy;
  /** Where its first byte belongs in the result. */
  readonly targetByteOffset: number;
}

const NOTHING: StridedCopy = { byteLength: 0, byteOffset: 0, runByteLength: 0, loops: [] };

/**
 * Plans the copy of items that lie apart into a dense result in C order.
 *
 * @param counts items per dimension, outermost first
 * @param strides distance of neighbours per dimension, in items; of any sign
 * @param first the item that comes first in the result
 * @param itemByteLength bytes of an item; a fraction when several share a byte
 */
export function stridedCopy(
  counts: readonly number[],
  strides: readonly number[],
  first: number,
  itemByteLength: number,
): StridedCopy {
  // Before any product: next to a zero, the other counts may be so large that their product is infinite.
  if (counts.includes(0)) return NOTHING;
  // Innermost first. A loop whose step equals the whole extent of the loop inside it merges with that loop.
  const loops: { count: number; from: number; to: number }[] = [];
  let byteLength = itemByteLength;
  for (let axis = counts.length - 1; axis >= 0; axis--) {
    const count = counts[axis] as number;
    if (count === 1) continue;
    const from = (strides[axis] as number) * itemByteLength;
    const inner = loops.at(-1);
    if (inner !== undefined && from === inner.count * inner.from) inner.count *= count;
    else loops.push({ count, from, to: byteLength });
    byteLength *= count;
  }
  const run = loops[0]?.from === itemByteLength ? loops.shift() : undefined;
  return {
    byteLength,
    byteOffset: first * itemByteLength,
    runByteLength: (run?.count ?? 1) * itemByteLength,
    loops: loops.reverse(),
  };
}

/** Returns the smallest range of the source that holds every byte of the copy; empty for an empty copy. */
export function extentOf(copy: StridedCopy): ByteRange {
  let begin = copy.byteOffset;
  let end = copy.byteOffset + copy.runByteLength;
  for (const { count, from } of copy.loops) {
    const reach = (count - 1) * from;
    if (reach < 0) begin += reach;
    else end += reach;
  }
  return { begin, end };
}

/**
 * Cuts a copy into pieces whose extents are at most `maxExtent` bytes long (at least 1). Pieces are as large
 * as that allows: several rounds of the loop that goes through the source in the longest steps, or one round
 * at a time cut by the next loop, or parts of a run. The pieces of a slice come in the order of its bytes.
 * The recursion is at most 53 deep, because every loop at least doubles the number of elements.
 */
export function* splitCopy(copy: StridedCopy, maxExtent: number): Generator<CopyPiece, void, void> {
  if (copy.byteLength === 0) return;
  const { begin, end } = extentOf(copy);
  if (end - begin <= maxExtent) {
    yield { copy, targetByteOffset: 0 };
    return;
  }
  const [first, ...others] = copy.loops;
  if (first === undefined) {
    for (const { begin, end } of cut(0, copy.byteLength, maxExtent)) {
      yield partOfRun(copy, begin, end);
    }
    return;
  }
  const widest = others.reduce(
    (best, loop) => (Math.abs(loop.from) > Math.abs(best.from) ? loop : best),
    first,
  );
  const { count, from } = widest;
  const spare = maxExtent - (end - begin - (count - 1) * Math.abs(from));
  const rounds = spare < 0 ? 1 : 1 + Math.floor(spare / Math.abs(from));
  for (const { begin, end } of cut(0, count, rounds)) {
    const part = partOfLoop(copy, widest, begin, end);
    yield* piecesWithin(part, splitCopy(part.copy, maxExtent));
  }
}

/** Yields the pieces of a whole copy that make the bytes [begin, end) of its result; targets count from `begin`. */
export function* windowOf(
  copy: StridedCopy,
  begin: number,
  end: number,
): Generator<CopyPiece, void, void> {
  if (begin >= end) return;
  const [loop] = copy.loops;
  if (loop === undefined) {
    yield { ...partOfRun(copy, begin, end), targetByteOffset: 0 };
    return;
  }
  const { to } = loop;
  const partOfRound = function* (index: number, from: number, until: number) {
    const round = partOfLoop(copy, loop, index, index + 1).copy;
    const pieces = windowOf(round, from - index * to, until - index * to);
    yield* piecesWithin({ targetByteOffset: from - begin }, pieces);
  };
  const firstWhole = Math.ceil(begin / to);
  const headEnd = Math.min(end, firstWhole * to);
  yield* partOfRound(firstWhole - 1, begin, headEnd);
  const wholeEnd = Math.max(firstWhole, Math.floor(end / to));
  if (wholeEnd > firstWhole) {
    const { copy: whole } = partOfLoop(copy, loop, firstWhole, wholeEnd);
    yield { copy: whole, targetByteOffset: headEnd - begin };
  }
  yield* partOfRound(wholeEnd, wholeEnd * to, end);
}

/** Returns the bytes [begin, end) of a copy without loops. */
function partOfRun({ byteOffset }: StridedCopy, begin: number, end: number): CopyPiece {
  const byteLength = end - begin;
  return {
    copy: { byteLength, byteOffset: byteOffset + begin, runByteLength: byteLength, loops: [] },
    targetByteOffset: begin,
  };
}

/** Returns the rounds [begin, end) of one loop of a copy. */
function partOfLoop(copy: StridedCopy, loop: StridedLoop, begin: number, end: number): CopyPiece {
  const count = end - begin;
  return {
    copy: {
      byteLength: (copy.byteLength / loop.count) * count,
      byteOffset: copy.byteOffset + begin * loop.from,
      runByteLength: copy.runByteLength,
      loops: copy.loops.flatMap((each) =>
        each !== loop ? [each] : count === 1 ? [] : [{ ...loop, count }],
      ),
    },
    targetByteOffset: begin * loop.to,
  };
}

function* piecesWithin(
  { targetByteOffset: at }: Pick<CopyPiece, 'targetByteOffset'>,
  pieces: Iterable<CopyPiece>,
): Generator<CopyPiece, void, void> {
  for (const { copy, targetByteOffset } of pieces) {
    yield { copy, targetByteOffset: at + targetByteOffset };
  }
}
