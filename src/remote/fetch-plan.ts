/**
 * What to fetch for tensors and slices: the byte runs that they need, those near each other together,
 * long ones in pieces that are fetched beside each other.
 */

import { extentOf, type StridedCopy, splitCopy } from '../tensor/strided-copy.js';
import type { RemoteFile } from './remote-file.js';

/**
 * Longest piece. One that is not all of one tensor passes through memory of this length, for as many
 * pieces as are under way. At 100 MB per second a request of 8 MiB takes 80 ms: beside that its latency
 * is small, and eight of them fill a fast line.
 */
export const PIECE_BYTE_LENGTH: number = 2 ** 23;

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
export interface FetchPiece {
  readonly file: RemoteFile;
  begin: number;
  end: number;
  readonly parts: PiecePart[];
}

/**
 * The pieces for all that is wanted, made one after the other. Neighbours should follow each other, in
 * either direction. Between two runs of a piece are at most `maxGap` bytes that nobody wants.
 */
export function* planPieces(
  wanted: Iterable<WantedCopy>,
  maxGap: number,
): Generator<FetchPiece, void, void> {
  let piece: FetchPiece | undefined;
  for (const { file, copy, memory } of wanted) {
    const room = piece?.file === file ? roomFor(piece, copy, maxGap) : 0;
    for (const { copy: part, targetByteOffset } of cutCopy(copy, room, maxGap)) {
      const { begin, end } = extentOf(part);
      if (piece !== undefined && !(piece.file === file && isNear(piece, begin, end, maxGap))) {
        yield piece;
        piece = undefined;
      }
      piece ??= { file, begin, end, parts: [] };
      piece.begin = Math.min(piece.begin, begin);
      piece.end = Math.max(piece.end, end);
      piece.parts.push({ copy: part, memory, targetByteOffset });
    }
  }
  if (piece !== undefined) yield piece;
}

/** Whether a range belongs to a piece: near it, and both together are no longer than a piece may be. */
function isNear(piece: FetchPiece, begin: number, end: number, maxGap: number): boolean {
  const distance = Math.max(begin - piece.end, piece.begin - end);
  const together = Math.max(piece.end, end) - Math.min(piece.begin, begin);
  return distance <= maxGap && together <= PIECE_BYTE_LENGTH;
}

/** How many bytes of a run a piece before it can take. */
function roomFor(piece: FetchPiece, { byteOffset, loops }: StridedCopy, maxGap: number): number {
  const gap = byteOffset - piece.end;
  if (loops.length > 0 || gap < 0 || gap > maxGap) return 0;
  return Math.max(0, piece.begin + PIECE_BYTE_LENGTH - byteOffset);
}

/** Cuts a copy where its runs are far from each other, and where it is longer than a piece. */
function* cutCopy(copy: StridedCopy, room: number, maxGap: number): Generator<Cut, void, void> {
  const first = room < copy.byteLength ? room : 0;
  if (first > 0) {
    yield { copy: { ...copy, byteLength: first, runByteLength: first }, targetByteOffset: 0 };
  }
  const byteLength = copy.byteLength - first;
  const byteOffset = copy.byteOffset + first;
  const rest = first > 0 ? { ...copy, byteLength, byteOffset, runByteLength: byteLength } : copy;
  const longest = Math.min(nearByteLength(rest, maxGap), PIECE_BYTE_LENGTH);
  for (const { copy: part, targetByteOffset } of splitCopy(rest, longest)) {
    yield { copy: part, targetByteOffset: first + targetByteOffset };
  }
}

type Cut = Pick<PiecePart, 'copy' | 'targetByteOffset'>;

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
