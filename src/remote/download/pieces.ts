/** Plans the requests for the bytes of a planned file, from some position on. */

import { type FileRange, type MergeLimits, merge, type Part } from '../../work/byte-ranges.js';
import { DEFAULT_MAX_GAP_BYTE_LENGTH } from '../fetch-plan.js';
import type { ReadRange, Segment, WholeFile } from './download-item.js';

/**
 * Longest piece, fetched by one request: short enough that a few of them at a time need little memory, long
 * enough that the latency of a request, 30 ms, is less than its bytes take at 100 MB per second.
 */
export const PIECE_BYTE_LENGTH: number = 2 ** 22;

/** A range of a remote file and its wanted bytes. */
export interface FetchedPiece {
  readonly file: ReadRange['file'];
  readonly begin: number;
  readonly end: number;
  /** Runs of wanted bytes, as positions in the remote file. */
  readonly runs: FetchedRun[];
}

/** Wanted bytes. */
interface FetchedRun {
  readonly begin: number;
  readonly end: number;
}

/** A piece of the new file. */
export type DownloadPiece =
  | FetchedPiece
  | { readonly file: null; readonly bytes: Uint8Array<ArrayBuffer> };

/** Bytes of a remote file, at their position there, or of the plan itself. */
interface SegmentRange extends FileRange {
  readonly segment: Segment;
}

/** The pieces of a file after its first `from` bytes, in order. */
export function* piecesFrom(
  { segments }: Pick<WholeFile, 'segments'>,
  from: number,
): Generator<DownloadPiece, void, void> {
  const limits: MergeLimits<SegmentRange> = {
    maxByteLength: PIECE_BYTE_LENGTH,
    maxGap: DEFAULT_MAX_GAP_BYTE_LENGTH,
    unitOf: ({ segment }) => (segment.file === null ? Number.POSITIVE_INFINITY : 1),
    joins: ({ position, byteLength, parts }, range, begin) => {
      const file = parts[0]?.range.segment.file;
      const isSame = file === range.segment.file && file !== null;
      return isSame && range.position + begin >= position + byteLength;
    },
  };
  for (const { position, byteLength, parts } of merge(rangesFrom(segments, from), limits)) {
    const [{ range }] = parts as [Part<SegmentRange>];
    const { segment } = range;
    if (segment.file === null) yield segment;
    else {
      const runs = parts.map(({ range, begin, end }): FetchedRun => {
        return { begin: range.position + begin, end: range.position + end };
      });
      yield { file: segment.file, begin: position, end: position + byteLength, runs };
    }
  }
}

function* rangesFrom(
  segments: Iterable<Segment>,
  from: number,
): Generator<SegmentRange, void, void> {
  for (const segment of segmentsFrom(segments, from)) {
    const [begin, end] =
      segment.file === null ? [0, segment.bytes.length] : [segment.begin, segment.end];
    if (begin < end) yield { position: begin, byteLength: end - begin, segment };
  }
}

function* segmentsFrom(segments: Iterable<Segment>, from: number): Generator<Segment, void, void> {
  let left = from;
  for (const segment of segments) {
    const byteLength = segmentByteLength(segment);
    if (left >= byteLength) {
      left -= byteLength;
      continue;
    }
    if (segment.file === null) yield { file: null, bytes: segment.bytes.subarray(left) };
    else yield { ...segment, begin: segment.begin + left };
    left = 0;
  }
}

function segmentByteLength(segment: Segment): number {
  return segment.file === null ? segment.bytes.length : segment.end - segment.begin;
}
