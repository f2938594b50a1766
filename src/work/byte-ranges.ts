/** Ranges of bytes of any origin: `cut` them, `merge` neighbours. All lengths and positions are in bytes. */

/**
 * Pieces of this length stay in the processor's cache between two steps of work on them. A multiple of every
 * element's length.
 */
export const CACHED_BYTE_LENGTH: number = 2 ** 20;

/** A range of a file, in bytes. */
export interface FileRange {
  readonly position: number;
  readonly byteLength: number;
}

/** A range of bytes. */
export interface ByteRange {
  /** The first byte. */
  readonly begin: number;
  /** The byte after the last one. */
  readonly end: number;
}

/**
 * Cuts the bytes [begin, end) into ranges of `length` bytes, in order; the last one may be shorter. Cuts are at
 * multiples of `length` from `origin`, so the first range may be shorter, too. An empty input gives no range.
 *
 * `cut(3, 12, 4)` gives [3, 7), [7, 11) and [11, 12); with 0 as `origin` it gives [3, 4), [4, 8) and [8, 12).
 */
export function* cut(
  begin: number,
  end: number,
  length: number,
  origin: number = begin,
): Generator<ByteRange, void, void> {
  let from = begin;
  for (let to = from + length - ((from - origin) % length); from < end; to += length) {
    yield { begin: from, end: Math.min(to, end) };
    from = to;
  }
}

/** A part of a range. */
export interface Part<Range> extends ByteRange {
  /** The range; `begin` and `end` are counted from its start. */
  readonly range: Range;
}

/** Neighbours in the order given. */
export interface Piece<Range> extends FileRange {
  readonly parts: readonly Part<Range>[];
}

/** A piece while neighbours are being added. */
interface GrowingPiece<Range> extends Piece<Range> {
  position: number;
  byteLength: number;
  readonly parts: Part<Range>[];
}

/** The limits of a piece. */
export interface MergeLimits<Range> {
  /** Longest piece, gaps included; only an indivisible range may be longer. No limit by default. */
  readonly maxByteLength?: number | undefined;
  /** Longest gap between two parts, in bytes; 0 by default. */
  readonly maxGap?: number | undefined;
  /** Most parts of a piece; no limit by default. */
  readonly maxParts?: number | undefined;
  /**
   * A range is cut only at multiples of this many bytes from its start: 1 (anywhere) by default, Infinity for
   * nowhere.
   */
  readonly unitOf?: ((range: Range) => number) | undefined;
  /** Whether the bytes of the range from `begin` on may follow the piece; always by default. */
  readonly joins?: ((piece: Piece<Range>, range: Range, begin: number) => boolean) | undefined;
}

/**
 * Joins consecutive ranges that lie near each other in the file, before or after; overlapping ranges are near.
 * Cuts a range where a piece is full. The parts cover every byte of every range once, in the order of the ranges;
 * an empty range is a part, too. Reads one range ahead of the pieces it has yielded.
 */
export function* merge<Range extends FileRange>(
  ranges: Iterable<Range>,
  limits: MergeLimits<Range>,
): Generator<Piece<Range>, void, void> {
  let piece: GrowingPiece<Range> | undefined;
  for (const range of ranges) {
    let begin = 0;
    do {
      const room = piece === undefined ? -1 : roomFor(piece, range, begin, limits);
      if (piece !== undefined && room < 0) yield piece;
      if (piece === undefined || room < 0) {
        piece = { position: range.position + begin, byteLength: 0, parts: [] };
      }
      const end = begin + (room < 0 ? firstLength(range, begin, limits) : room);
      add(piece, range, begin, end);
      begin = end;
    } while (begin < range.byteLength);
  }
  if (piece !== undefined) yield piece;
}

/** Returns how many bytes of the range, from `begin` on, the piece can take; -1 when it can take no part of it. */
function roomFor<Range extends FileRange>(
  piece: Piece<Range>,
  range: Range,
  begin: number,
  { maxByteLength = Infinity, maxGap = 0, maxParts = Infinity, unitOf, joins }: MergeLimits<Range>,
): number {
  const position = range.position + begin;
  const length = range.byteLength - begin;
  const pieceEnd = piece.position + piece.byteLength;
  const gap = Math.max(position - pieceEnd, piece.position - (position + length));
  if (gap > maxGap || piece.parts.length >= maxParts) return -1;
  if (joins?.(piece, range, begin) === false) return -1;
  const together = Math.max(pieceEnd, position + length) - Math.min(piece.position, position);
  if (together <= maxByteLength) return length;
  // Only a range after the piece is cut, because its next part then follows.
  if (position < pieceEnd) return -1;
  const room = wholeUnits(piece.position + maxByteLength - position, unitOf?.(range));
  return room > 0 ? room : -1;
}

/** Returns how many bytes of the range, from `begin` on, begin a new piece. */
function firstLength<Range extends FileRange>(
  range: Range,
  begin: number,
  { maxByteLength = Infinity, unitOf }: MergeLimits<Range>,
): number {
  const length = range.byteLength - begin;
  if (length <= maxByteLength) return length;
  return wholeUnits(maxByteLength, unitOf?.(range)) || length;
}

function wholeUnits(byteLength: number, unit = 1): number {
  return unit === Infinity ? 0 : byteLength - (byteLength % unit);
}

function add<Range extends FileRange>(
  piece: GrowingPiece<Range>,
  range: Range,
  begin: number,
  end: number,
): void {
  const pieceEnd = Math.max(piece.position + piece.byteLength, range.position + end);
  piece.position = Math.min(piece.position, range.position + begin);
  piece.byteLength = pieceEnd - piece.position;
  piece.parts.push({ range, begin, end });
}
