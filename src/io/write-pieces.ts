/** Writes many ranges of a file, from memory and from other files: in large pieces. */

import { argumentRangeError } from '../errors/arguments.js';
import { MAX_VIEWS } from './byte-views.js';
import { type WrittenFile, writeViews, writeViewsSync } from './file-copy.js';
import type { ReadFile } from './opened-file.js';
import type { ByteRange } from './parallel-reads.js';
import { type CopiedRange, copyRanges, copyRangesSync } from './range-copy.js';
import { type PieceMover, Slots } from './transfer.js';

/**
 * Bytes per write call. Measured with 1 to 16 MiB: from 4 on longer ones are not faster, and an
 * abort waits for them.
 */
const WRITE_BYTE_LENGTH = 8 * 2 ** 20;

/** Bytes per copy. Measured with 16 to 256 MiB: no difference; an abort waits for this one. */
const COPY_BYTE_LENGTH = 64 * 2 ** 20;

/**
 * Ranges up to this many bytes are put together where they come from different places: measured with
 * 4 KiB, a copy of its own for each costs some 50 µs. Other limits were not compared.
 */
const SHORT_BYTE_LENGTH = 64 * 2 ** 10;

/** Bytes that are put together at once, in memory. */
const GATHERED_BYTE_LENGTH = 4 * 2 ** 20;

/** Ranges that are put together at once. */
const MAX_RANGES = 1024;

/**
 * For all files of the thread together. The system lets one write to a file at a time; the second
 * is there when the first is done. A third gains nothing.
 */
const slots = new Slots(2);

/** Bytes of another file, from `position` on. */
export interface FileSource {
  readonly file: ReadFile;
  readonly position: number;
}

/**
 * Memory: gives the bytes [begin, end) of the range, when they are about to be written. The memory
 * must stay until that is done.
 */
export type MemorySource = (begin: number, end: number) => Uint8Array;

/** A range of the new file, and where its bytes come from. */
export interface Write extends ByteRange {
  readonly source: MemorySource | FileSource;
}

/** The write of bytes that are in memory as they are. */
export function writeFrom(bytes: Uint8Array, position: number): Write {
  const { byteLength } = bytes;
  return { position, byteLength, source: (begin, end) => bytes.subarray(begin, end) };
}

/** A range to which neighbours are added. */
interface GrowingRange extends CopiedRange {
  byteLength: number;
}

/** What is written at once, one after the other: views, or ranges of other files. */
interface Piece {
  readonly position: number;
  byteLength: number;
  readonly views: Uint8Array[];
  readonly ranges: GrowingRange[];
}

/** Bytes up to the next place at which pieces are cut: multiples of a length, and so of a page. */
function roomAt(position: number, { source }: Write): number {
  const length = typeof source === 'function' ? WRITE_BYTE_LENGTH : COPY_BYTE_LENGTH;
  return length - (position % length);
}

/** Whether the write, `done` bytes of it apart, goes on where the piece ends. */
function continues(piece: Piece, write: Write, done: number): boolean {
  const { position, byteLength, ranges, views } = piece;
  const { source } = write;
  const at = write.position + done;
  if (position + byteLength !== at) return false;
  const last = ranges.at(-1);
  if (typeof source === 'function') {
    const isFull = at % WRITE_BYTE_LENGTH === 0 || views.length === MAX_VIEWS;
    return last === undefined && !isFull;
  }
  if (last === undefined || at % COPY_BYTE_LENGTH === 0) return false;
  const length = write.byteLength - done;
  const isShort = length <= SHORT_BYTE_LENGTH && byteLength + length <= GATHERED_BYTE_LENGTH;
  if (isNext(last, source, done)) return ranges.length === 1 || isShort;
  return isShort && last.byteLength <= SHORT_BYTE_LENGTH && ranges.length < MAX_RANGES;
}

/** Whether the source, `done` bytes of it apart, goes on where the range ends. */
function isNext(
  { file, position, byteLength }: CopiedRange,
  source: FileSource,
  done: number,
): boolean {
  return file.fd === source.file.fd && position + byteLength === source.position + done;
}

/** Adds bytes of the source behind the first `done` ones. */
function addRange({ ranges }: Piece, source: FileSource, done: number, byteLength: number): void {
  const last = ranges.at(-1);
  if (last === undefined || !isNext(last, source, done)) {
    ranges.push({ file: source.file, position: source.position + done, byteLength });
    return;
  }
  last.byteLength += byteLength;
}

/** Takes memory in passing: each when its turn to be written has come. */
function* piecesOf(writes: Iterable<Write>): Generator<Piece, void, void> {
  let piece: Piece | undefined;
  for (const write of writes) {
    const { source } = write;
    for (let done = 0; done < write.byteLength; ) {
      if (piece !== undefined && !continues(piece, write, done)) {
        yield piece;
        piece = undefined;
      }
      const position = write.position + done;
      const length = Math.min(write.byteLength - done, roomAt(position, write));
      piece ??= { position, byteLength: 0, views: [], ranges: [] };
      if (typeof source === 'function') piece.views.push(take(source, done, done + length));
      else addRange(piece, source, done, length);
      piece.byteLength += length;
      done += length;
    }
  }
  if (piece !== undefined) yield piece;
}

/** Fewer bytes, as of a buffer that was detached meanwhile, would leave a hole in the file. */
function take(source: MemorySource, begin: number, end: number): Uint8Array {
  const view = source(begin, end);
  if (view.byteLength === end - begin) return view;
  throw argumentRangeError('the length of the bytes to write', `${end - begin}`, view.byteLength);
}

/**
 * Writes the ranges, which must not overlap and are best given in the order of the file. All
 * descriptors must stay open until the promise is settled. Keeps no more memory than it takes for
 * a piece.
 *
 * @throws FileChangedError when a file ends before a range of it does; errors of the system, with
 * the target's path
 */
export async function writePieces(
  target: WrittenFile,
  writes: Iterable<Write>,
  transfer: PieceMover,
): Promise<void> {
  await transfer.run(piecesOf(writes), slots, async (piece) => {
    const { position, byteLength, views, ranges } = piece;
    if (ranges.length === 0) await writeViews(target, views, position);
    else await copyRanges(ranges, target, position);
    return byteLength;
  });
}

/** As `writePieces`, on this thread. */
export function writePiecesSync(target: WrittenFile, writes: Iterable<Write>): void {
  for (const { position, views, ranges } of piecesOf(writes)) {
    if (ranges.length === 0) writeViewsSync(target, views, position);
    else copyRangesSync(ranges, target, position);
  }
}
