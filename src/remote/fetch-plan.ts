/**
 * Plans the requests for tensors and slices: joins neighbouring runs of bytes and cuts long ones into pieces for
 * parallel requests.
 */

import { extentOf, type StridedCopy, splitCopy } from '../tensor/strided-copy.js';
import {
  type ByteRange,
  type FileRange,
  type MergeLimits,
  merge,
  type Part,
} from '../work/byte-ranges.js';
import type { RemoteFile } from './remote-file.js';

/**
 * Longest piece. Every piece in flight needs memory of this length, unless it is a whole tensor. At 100 MB per second
 * a request of 8 MiB takes 80 ms: next to that its latency is small, and eight of them fill a fast line.
 */
export const FETCHED_PIECE_BYTE_LENGTH: number = 2 ** 23;

/**
 * Joins runs that are at most this far apart: at 10 MB per second the bytes between them take 7 ms, less than another
 * request.
 */
export const DEFAULT_MAX_GAP_BYTE_LENGTH: number = 2 ** 16;

/** Memory for a tensor or a slice. */
export interface ResultMemory {
  /** The tensor, for messages. */
  readonly tensor: string;
  /** The memory; allocated right before the first bytes arrive. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Bytes of a file for one piece of memory. */
export interface RequestedCopy {
  readonly file: RemoteFile;
  /** Its positions are those of the file. */
  readonly copy: StridedCopy;
  readonly memory: ResultMemory;
}

/** A part of a piece and the target of its bytes. */
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

/** A run, which may be cut, or strided bytes, which must not. */
interface RequestedRange extends FileRange, PiecePart {
  readonly file: RemoteFile;
}

/**
 * Generates the pieces for all copies. Neighbours should follow each other, in either direction. Leaves at most
 * `maxGap` unwanted bytes between two runs of a piece.
 */
export function* planPieces(
  wanted: Iterable<RequestedCopy>,
  maxGap: number,
): Generator<FetchPiece, void, void> {
  const limits: MergeLimits<RequestedRange> = {
    maxByteLength: FETCHED_PIECE_BYTE_LENGTH,
    maxGap,
    unitOf: ({ copy }) => (copy.loops.length === 0 ? 1 : Number.POSITIVE_INFINITY),
    joins: ({ parts }, { file }) => parts[0]?.range.file === file,
  };
  for (const { position, byteLength, parts } of merge(requestedRanges(wanted, maxGap), limits)) {
    const [{ range }] = parts as [Part<RequestedRange>];
    const end = position + byteLength;
    yield { file: range.file, begin: position, end, parts: parts.map(partOf) };
  }
}

/** Cuts copies between distant runs, and into pieces. */
function* requestedRanges(
  wanted: Iterable<RequestedCopy>,
  maxGap: number,
): Generator<RequestedRange, void, void> {
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

function partOf({ range, begin, end }: Part<RequestedRange>): PiecePart {
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

/** Length of the range of innermost rounds without a gap above the limit. */
function nearByteLength({ runByteLength, loops }: StridedCopy, maxGap: number): number {
  let byteLength = runByteLength;
  for (const { count, from } of loops.toReversed()) {
    const stride = Math.abs(from);
    if (stride - byteLength > maxGap) break;
    byteLength += (count - 1) * stride;
  }
  return byteLength;
}
