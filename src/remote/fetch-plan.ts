/**
 * What to fetch for tensors and slices: the byte runs that they need, those near each other together,
 * long ones in pieces that are fetched beside each other.
 */

import {
  type ByteRange,
  type FileRange,
  type MergeLimits,
  merge,
  type Part,
} from '../tensor/pieces.js';
import { extentOf, type StridedCopy, splitCopy } from '../tensor/strided-copy.js';
import type { RemoteFile } from './remote-file.js';

/**
 * Longest piece. One that is not all of one tensor passes through memory of this length, for as many
 * pieces as are under way. At 100 MB per second a request of 8 MiB takes 80 ms: beside that its latency
 * is small, and eight of them fill a fast line.
 */
export const FETCHED_PIECE_BYTE_LENGTH: number = 2 ** 23;

/**
 * Runs that are at most this far apart are fetched together: at 10 MB per second the bytes between them
 * take 7 ms, less than another request.
 */
export const DEFAULT_MAX_GAP_BYTE_LENGTH: number = 2 ** 16;

/** Memory for a tensor or a slice. */
export interface ResultMemory {
  /** The tensor, for messages. */
  readonly tensor: string;
  /** All of it; made when the first bytes are about to arrive. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Bytes of a file that belong into one memory. */
export interface WantedCopy {
  readonly file: RemoteFile;
  /** Its positions are those of the file. */
  readonly copy: StridedCopy;
  readonly memory: ResultMemory;
}

/** A part of a piece: which of its bytes go where. */
export interface PiecePart {
  readonly copy: StridedCopy;
  readonly memory: ResultMemory;
  readonly targetByteOffset: number;
}

/** A range of a file, fetched by one request. */
export interface FetchPiece extends ByteRange {
  readonly file: RemoteFile;
  readonly parts: readonly PiecePart[];
}

/** A run, which can be cut, or strided bytes, which cannot. */
interface WantedRange extends FileRange, PiecePart {
  readonly file: RemoteFile;
}

/**
 * The pieces for all that is wanted, made one after the other. Neighbours should follow each other, in
 * either direction. Between two runs of a piece are at most `maxGap` bytes that nobody wants.
 */
export function* planPieces(
  wanted: Iterable<WantedCopy>,
  maxGap: number,
): Generator<FetchPiece, void, void> {
  const limits: MergeLimits<WantedRange> = {
    maxByteLength: FETCHED_PIECE_BYTE_LENGTH,
    maxGap,
    unitOf: ({ copy }) => (copy.loops.length === 0 ? 1 : Number.POSITIVE_INFINITY),
    joins: ({ parts }, { file }) => parts[0]?.range.file === file,
  };
  for (const { position, byteLength, parts } of merge(wantedRanges(wanted, maxGap), limits)) {
    const [{ range }] = parts as [Part<WantedRange>];
    const end = position + byteLength;
    yield { file: range.file, begin: position, end, parts: parts.map(partOf) };
  }
}

/** Cuts copies where their runs are far from each other, and where they are longer than a piece. */
function* wantedRanges(
  wanted: Iterable<WantedCopy>,
  maxGap: number,
): Generator<WantedRange, void, void> {
  for (const { file, copy, memory } of wanted) {
    const longest =
      copy.loops.length === 0
        ? copy.byteLength
        : Math.min(nearByteLength(copy, maxGap), FETCHED_PIECE_BYTE_LENGTH);
    for (const piece of splitCopy(copy, longest)) {
      const { begin, end } = extentOf(piece.copy);
      yield { file, memory, ...piece, position: begin, byteLength: end - begin };
    }
  }
}

function partOf({ range, begin, end }: Part<WantedRange>): PiecePart {
  const { copy, memory, targetByteOffset } = range;
  if (copy.loops.length > 0) return { copy, memory, targetByteOffset };
  const byteLength = end - begin;
  const byteOffset = copy.byteOffset + begin;
  return {
    copy: { byteLength, byteOffset, runByteLength: byteLength, loops: [] },
    memory,
    targetByteOffset: targetByteOffset + begin,
  };
}

/** Length of the range of the innermost rounds that have no gap above the limit between them. */
function nearByteLength({ runByteLength, loops }: StridedCopy, maxGap: number): number {
  let byteLength = runByteLength;
  for (const { count, from } of loops.toReversed()) {
    const stride = Math.abs(from);
    if (stride - byteLength > maxGap) break;
    byteLength += (count - 1) * stride;
  }
  return byteLength;
}
