/** Which requests bring the bytes of a planned file, from some position on. */

import type { RemoteFile } from '../remote/remote-file.js';
import { byteLengthOf } from '../selection/cast-bytes.js';
import type { CastRun, Segment, WantedFile } from './wanted-file.js';

/**
 * Longest piece, fetched by one request: short enough that a few of them at a time need little memory, long
 * enough that the latency of a request, 30 ms, is less than its bytes take at 100 MB per second.
 */
export const PIECE_BYTE_LENGTH: number = 2 ** 22;

/** Runs that are at most so far apart are fetched together: the bytes between them cost less than a request. */
const MAX_GAP_BYTE_LENGTH = 2 ** 16;

/** A range of a remote file, and which of its bytes are wanted. */
export interface FetchedPiece {
  readonly file: RemoteFile;
  readonly begin: number;
  end: number;
  /** Runs of wanted bytes, as positions in the remote file. */
  readonly runs: FetchedRun[];
}

/** Wanted bytes, as they are or to be cast: then whole elements. */
export interface FetchedRun {
  readonly begin: number;
  readonly end: number;
  readonly cast: CastRun | undefined;
}

/** A piece of the new file. */
export type Piece = FetchedPiece | { readonly file: null; readonly bytes: Uint8Array<ArrayBuffer> };

/** The pieces of a file behind its first `from` bytes, in order. */
export function* piecesFrom({ segments }: WantedFile, from: number): Generator<Piece, void, void> {
  let piece: FetchedPiece | undefined;
  for (const segment of segmentsFrom(segments, from)) {
    if (segment.file === null) {
      if (piece !== undefined) yield piece;
      piece = undefined;
      yield segment;
      continue;
    }
    const { file, cast } = segment;
    for (let begin = segment.begin; begin < segment.end; ) {
      if (piece !== undefined && !isNear(piece, file, begin)) {
        yield piece;
        piece = undefined;
      }
      piece ??= { file, begin, end: begin, runs: [] };
      const room = piece.begin + PIECE_BYTE_LENGTH - begin;
      const end = Math.min(segment.end, begin + room - (room % elementLengthOf(cast)));
      if (end === begin) {
        yield piece;
        piece = undefined;
        continue;
      }
      piece.runs.push({ begin, end, cast });
      piece.end = end;
      begin = end;
    }
  }
  if (piece !== undefined) yield piece;
}

/** Whether a run that begins there can be fetched with a piece. */
function isNear(piece: FetchedPiece, file: RemoteFile, begin: number): boolean {
  const gap = begin - piece.end;
  const isInside = begin < piece.begin + PIECE_BYTE_LENGTH;
  return piece.file === file && gap >= 0 && gap <= MAX_GAP_BYTE_LENGTH && isInside;
}

function* segmentsFrom(segments: Iterable<Segment>, from: number): Generator<Segment, void, void> {
  let left = from;
  for (const segment of segments) {
    const byteLength = lengthOf(segment);
    if (left >= byteLength) {
      left -= byteLength;
      continue;
    }
    if (segment.file === null) yield { file: null, bytes: segment.bytes.subarray(left) };
    else yield { ...segment, begin: segment.begin + sourceLengthOf(segment.cast, left) };
    left = 0;
  }
}

/**
 * How many of the first bytes of a file can be kept when it goes on behind them: a tensor that is cast goes on
 * with a whole element.
 */
export function keptByteLength({ segments }: WantedFile, byteLength: number): number {
  let begin = 0;
  for (const segment of segments) {
    const end = begin + lengthOf(segment);
    if (end > byteLength) {
      const cast = segment.file === null ? undefined : segment.cast;
      return (
        byteLength - ((byteLength - begin) % (cast === undefined ? 1 : byteLengthOf(cast.to, 1)))
      );
    }
    begin = end;
  }
  return byteLength;
}

function lengthOf(segment: Segment): number {
  if (segment.file === null) return segment.bytes.length;
  return targetLengthOf(segment.cast, segment.end - segment.begin);
}

/** Length of whole elements of the source in the new file. */
export function targetLengthOf(cast: CastRun | undefined, byteLength: number): number {
  return cast === undefined
    ? byteLength
    : byteLengthOf(cast.to, Math.floor(byteLength / byteLengthOf(cast.from, 1)));
}

function sourceLengthOf(cast: CastRun | undefined, byteLength: number): number {
  return cast === undefined
    ? byteLength
    : byteLengthOf(cast.from, byteLength / byteLengthOf(cast.to, 1));
}

function elementLengthOf(cast: CastRun | undefined): number {
  return cast === undefined ? 1 : byteLengthOf(cast.from, 1);
}
