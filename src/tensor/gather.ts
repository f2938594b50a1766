/**
 * Strided copies: gathers the bytes that a slice selects from a tensor. Everything is counted in
 * bytes; dtypes play no role.
 *
 * The source need not be in memory as a whole: `extentOf` tells which range is needed, and `splitCopy`
 * cuts a copy into pieces whose ranges have a bounded length.
 */

import { argumentRangeError } from '../errors/arguments.js';

/** One loop of a strided copy. */
export interface StridedLoop {
  /** Number of rounds, at least 2. */
  readonly count: number;
  /** Bytes of the source from one round to the next; negative where a step reverses. */
  readonly byteStride: number;
}

/**
 * Bytes to copy, in order: runs of `runByteLength` bytes. The first run is at `byteOffset` of the
 * source, the others where the nested loops lead. The result is dense.
 */
export interface StridedCopy {
  /** Length of the result in bytes; 0 when nothing is selected. */
  readonly byteLength: number;
  /** Source position of the first byte of the result. */
  readonly byteOffset: number;
  /** Bytes that lie next to each other in the source and in the result. */
  readonly runByteLength: number;
  /**
   * Nested loops around the run, outermost first, as few as possible. Each stride is at least as
   * long as the span of the loops inside it. Without loops the result is one run of the source.
   */
  readonly loops: readonly StridedLoop[];
}

/** A range of bytes. */
export interface ByteRange {
  /** The first byte. */
  readonly begin: number;
  /** The byte after the last one. */
  readonly end: number;
}

/** One piece of a split copy. */
export interface CopyPiece {
  /** What to copy. */
  readonly copy: StridedCopy;
  /** Where the piece belongs in the result, in bytes. */
  readonly targetByteOffset: number;
}

/** From this many words per run on, a call of `TypedArray.set` (about 60 ns) is faster than a loop. */
const LONG_RUN_WORDS = 32;

/** The smallest range of the source that holds every byte of the copy; `{0, 0}` when it has none. */
export function extentOf(copy: StridedCopy): ByteRange {
  if (copy.byteLength === 0) return { begin: 0, end: 0 };
  let begin = copy.byteOffset;
  let end = copy.byteOffset + copy.runByteLength;
  for (const { count, byteStride } of copy.loops) {
    const reach = (count - 1) * byteStride;
    if (reach < 0) begin += reach;
    else end += reach;
  }
  return { begin, end };
}

/**
 * Cuts a copy into pieces, in the order of the result, whose extents are at most `maxExtent` bytes
 * long (at least 1). Pieces are as large as that allows: several rounds of the outermost loop, or
 * one round at a time cut by the next loop, or parts of a run. The recursion is at most 53 deep,
 * because every loop at least doubles the number of elements.
 */
export function* splitCopy(copy: StridedCopy, maxExtent: number): Generator<CopyPiece, void, void> {
  if (copy.byteLength === 0) return;
  const { begin, end } = extentOf(copy);
  if (end - begin <= maxExtent) {
    yield { copy, targetByteOffset: 0 };
    return;
  }
  const [loop, ...loops] = copy.loops;
  if (loop === undefined) {
    for (let done = 0; done < copy.byteLength; done += maxExtent) {
      const length = Math.min(maxExtent, copy.byteLength - done);
      const byteOffset = copy.byteOffset + done;
      yield {
        copy: { byteLength: length, byteOffset, runByteLength: length, loops: [] },
        targetByteOffset: done,
      };
    }
    return;
  }
  const { count, byteStride } = loop;
  const roundLength = copy.byteLength / count;
  const round = { ...copy, byteLength: roundLength, loops };
  const roundExtent = extentOf(round);
  const spare = maxExtent - (roundExtent.end - roundExtent.begin);
  const rounds = spare < 0 ? 1 : 1 + Math.floor(spare / Math.abs(byteStride));
  for (let done = 0; done < count; done += rounds) {
    const byteOffset = copy.byteOffset + done * byteStride;
    const targetByteOffset = done * roundLength;
    const taken = Math.min(rounds, count - done);
    if (taken === 1) {
      for (const piece of splitCopy({ ...round, byteOffset }, maxExtent)) {
        yield { copy: piece.copy, targetByteOffset: targetByteOffset + piece.targetByteOffset };
      }
    } else {
      const byteLength = taken * roundLength;
      const piece = {
        ...copy,
        byteOffset,
        byteLength,
        loops: [{ count: taken, byteStride }, ...loops],
      };
      yield { copy: piece, targetByteOffset };
    }
  }
}

/**
 * Copies the selected bytes to `target`, from its byte `targetByteOffset` on.
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
  if (targetByteOffset + copy.byteLength > target.length) {
    const needed = `at least ${targetByteOffset + copy.byteLength} bytes long`;
    throw argumentRangeError('target', needed, target.length);
  }

  const inner = copy.loops.at(-1) ?? { count: 1, byteStride: 0 };
  const copyRuns = copyRunsOf(copy, inner, source, sourceByteOffset, target, targetByteOffset);
  const innerLength = inner.count * copy.runByteLength;
  const outer = copy.loops.slice(0, -1);
  const done = new Array<number>(outer.length).fill(0);
  let position = copy.byteOffset - sourceByteOffset;
  let written = targetByteOffset;
  for (;;) {
    copyRuns(position, written);
    written += innerLength;
    let axis = outer.length - 1;
    for (; axis >= 0; axis--) {
      const { count, byteStride } = outer[axis] as StridedLoop;
      const next = (done[axis] as number) + 1;
      if (next < count) {
        done[axis] = next;
        position += byteStride;
        break;
      }
      done[axis] = 0;
      position -= (count - 1) * byteStride;
    }
    if (axis < 0) return;
  }
}

type Words = Uint8Array | Uint16Array | Uint32Array;

type WordsConstructor = new (buffer: ArrayBufferLike, byteOffset: number, length: number) => Words;

/** Copies the runs of one innermost loop between byte positions of the two arrays. */
type RunCopier = (position: number, written: number) => void;

function copyRunsOf(
  copy: StridedCopy,
  inner: StridedLoop,
  source: Uint8Array,
  sourceByteOffset: number,
  target: Uint8Array,
  targetByteOffset: number,
): RunCopier {
  const { count, byteStride } = inner;
  const { runByteLength } = copy;
  // The widest words to which every position of this copy is aligned; integers keep bit patterns.
  const positions = [
    source.byteOffset + copy.byteOffset - sourceByteOffset,
    source.byteOffset,
    target.byteOffset,
    targetByteOffset,
    runByteLength,
    ...copy.loops.map((loop) => loop.byteStride),
  ];
  const width = [4, 2].find((bytes) => positions.every((position) => position % bytes === 0)) ?? 1;
  if (runByteLength >= LONG_RUN_WORDS * width) {
    return (position, written) => {
      for (let i = 0; i < count; i++) {
        const begin = position + i * byteStride;
        target.set(source.subarray(begin, begin + runByteLength), written + i * runByteLength);
      }
    };
  }
  const Words: WordsConstructor =
    width === 4 ? Uint32Array : width === 2 ? Uint16Array : Uint8Array;
  const from = new Words(source.buffer, source.byteOffset, Math.floor(source.length / width));
  const to = new Words(target.buffer, target.byteOffset, Math.floor(target.length / width));
  const run = runByteLength / width;
  const stride = byteStride / width;
  return (position, written) =>
    copyWords(from, position / width, stride, to, written / width, run, count);
}

function copyWords(
  from: Words,
  position: number,
  stride: number,
  to: Words,
  written: number,
  run: number,
  count: number,
): void {
  let begin = position;
  if (run === 1) {
    for (let i = 0; i < count; i++, begin += stride) to[written + i] = from[begin] as number;
    return;
  }
  let next = written;
  for (let i = 0; i < count; i++) {
    for (let j = 0; j < run; j++) to[next++] = from[begin + j] as number;
    begin += stride;
  }
}
