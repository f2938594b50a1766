/**
 * Work in pieces, wherever bytes are: `cut` ranges, `merge` neighbours, `limit` how many are under way.
 * All lengths and positions are in bytes.
 */

/**
 * Bytes that are made, compared or added up in pieces of this length stay in a processor's cache between two steps. A
 * multiple of every element's length.
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
 * multiples of `length` from `origin`, which may make the first one shorter, too. No bytes give no range.
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

/** Neighbours, in the order in which they were given. */
export interface Piece<Range> extends FileRange {
  readonly parts: readonly Part<Range>[];
}

/** A piece to which neighbours are added. */
interface GrowingPiece<Range> extends Piece<Range> {
  position: number;
  byteLength: number;
  readonly parts: Part<Range>[];
}

/** What may be one piece. */
export interface MergeLimits<Range> {
  /** Longest piece, gaps included; only a range that cannot be cut is longer. No limit by default. */
  readonly maxByteLength?: number | undefined;
  /** Most bytes between two parts that belong to neither; 0 by default. */
  readonly maxGap?: number | undefined;
  /** Most parts of a piece; no limit by default. */
  readonly maxParts?: number | undefined;
  /**
   * A range is cut only at multiples of so many bytes from its start: 1, anywhere, by default; Infinity: not at
   * all.
   */
  readonly unitOf?: ((range: Range) => number) | undefined;
  /** Whether the bytes of the range from `begin` on may follow the piece; always by default. */
  readonly joins?: ((piece: Piece<Range>, range: Range, begin: number) => boolean) | undefined;
}

/**
 * Joins ranges that follow each other, in either direction, and are near each other; ranges that overlap are
 * near. A range is cut where a piece is full. The parts have every byte of every range once, in the order of
 * the ranges; a range of no bytes is a part, too. Of the ranges one more than was given is taken.
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

/** How many bytes of the range from `begin` on the piece can take; -1 when it cannot take any part. */
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
  // Only a range behind the piece is cut: then its next part follows.
  if (position < pieceEnd) return -1;
  const room = wholeUnits(piece.position + maxByteLength - position, unitOf?.(range));
  return room > 0 ? room : -1;
}

/** How many bytes of the range from `begin` on are the first of a new piece. */
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

/** Work that waits for a slot. */
interface Waiting {
  readonly begin: () => void;
  next: Waiting | undefined;
}

/** Limits how many pieces of work run at once. The others wait, first come, first served. */
export class Slots {
  /** How many run at once. */
  readonly size: number;
  #free: number;
  // A linked list: a hundred thousand may wait, and taking the first out of an array moves all others.
  #first: Waiting | undefined;
  #last: Waiting | undefined;

  constructor(size: number) {
    this.size = size;
    this.#free = size;
  }

  /** Runs the work when a slot is free. It keeps the slot until its end, or until it calls `release`. */
  async run(work: (release: () => void) => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#queue(resolve));
    let isHeld = true;
    const release = (): void => {
      if (isHeld) this.#passOn();
      isHeld = false;
    };
    try {
      await work(release);
    } finally {
      release();
    }
  }

  /** Hands a slot to the first in the queue, so nobody jumps it; frees it when nobody waits. */
  #passOn(): void {
    const first = this.#first;
    this.#first = first?.next;
    if (first === undefined) this.#free++;
    else first.begin();
  }

  #queue(begin: () => void): void {
    const waiting: Waiting = { begin, next: undefined };
    if (this.#first === undefined) this.#first = waiting;
    else (this.#last as Waiting).next = waiting;
    this.#last = waiting;
  }
}

/**
 * Works on items, begun in this order, as many at once as there are slots, which others may share. An error of
 * the work or of the items, an abort, or what `check` throws before an item is taken, stops the next items from
 * beginning; the promise rejects when none is under way any more.
 *
 * @param ends the caller's signal, or a function that throws when there is no point in going on
 * @throws What the first of the items that failed threw; `signal.reason`
 */
export async function limit<Item>(
  items: Iterable<Item>,
  slots: Slots,
  work: (item: Item) => Promise<void>,
  ends?: AbortSignal | (() => void),
): Promise<void> {
  const goOn = typeof ends === 'function' ? ends : () => ends?.throwIfAborted();
  const iterator = items[Symbol.iterator]();
  const errors = new Map<number, unknown>();
  let [count, isDone] = [0, false];
  const step = async (): Promise<void> => {
    if (isDone || errors.size > 0) return;
    const index = count++;
    try {
      goOn();
      const item = iterator.next();
      if (item.done === true) isDone = true;
      else await work(item.value);
    } catch (error) {
      errors.set(index, error);
    }
  };
  const lane = async (): Promise<void> => {
    while (!isDone && errors.size === 0) await slots.run(step);
  };
  await Promise.all(Array.from({ length: slots.size }, lane));
  if (errors.size > 0) throw errors.get(Math.min(...errors.keys()));
}
