/** Writes many ranges of a file, from memory and from other files, in large pieces. */

import { argumentRangeError } from '../errors/arguments.js';
import { MAX_VIEWS } from './byte-views.js';
import {
  type CopiedRange,
  copyRanges,
  type WrittenFile,
  writeViewSync,
  writeViews,
} from './file-writes.js';
import { type FileRange, readBytesOf, readFully } from './opened-file.js';
import type { ReadFile } from './pool-calls.js';
import { runSync } from './steps.js';
import { type PieceMover, Slots } from './transfer.js';

/**
 * Bytes per write call. Measured with 1 to 16 MiB: from 4 MiB on, longer calls are not faster, and an
 * abort waits for the call.
 */
const WRITE_BYTE_LENGTH = 8 * 2 ** 20;

/** Bytes per copy. Measured with 16 to 256 MiB: no difference; an abort waits for the copy. */
const COPY_BYTE_LENGTH = 64 * 2 ** 20;

/**
 * Ranges up to this length share a piece even when their sources are apart: a separate copy costs about
 * 50 µs each. Measured with runs of 4 to 250 KiB: half the processor time of 64 KiB; 1 MiB gains nothing.
 */
const SHORT_BYTE_LENGTH = 256 * 2 ** 10;

/** Most bytes of short ranges in a piece: they go through memory. */
const MAX_SHORT_RANGES_BYTE_LENGTH = 4 * 2 ** 20;

/** Most short ranges in a piece. */
const MAX_SHORT_RANGES = 1024;

/**
 * Shared by all files of the thread. The system runs one write to a file at a time; a second one
 * waits in the pool, ready to go on. A third gains nothing.
 */
const slots = new Slots(2);

/** Bytes of another file, from `position` on. */
interface FileSource {
  readonly file: ReadFile;
  readonly position: number;
}

/**
 * Gives the bytes [begin, end) of a range when they are about to be written. Their memory must stay
 * until they are.
 */
type MemorySource = (begin: number, end: number) => Uint8Array;

/** A range of the new file, and where its bytes come from. */
export interface Write extends FileRange {
  readonly source: MemorySource | FileSource;
}

/** The write of bytes that are in memory. */
export function writeFrom(bytes: Uint8Array, position: number): Write {
  const { byteLength } = bytes;
  return { position, byteLength, source: (begin, end) => bytes.subarray(begin, end) };
}

/** A range to which neighbours are added. */
interface GrowingRange extends CopiedRange {
  byteLength: number;
}

/** What is written by one call: views or ranges of other files, one after the other. */
interface Piece {
  readonly position: number;
  byteLength: number;
  readonly views: Uint8Array[];
  readonly ranges: GrowingRange[];
}

/** Bytes up to the next cut. Cuts are at multiples of a length, which are multiples of a page. */
function roomAt(position: number, { source }: Write): number {
  const length = typeof source === 'function' ? WRITE_BYTE_LENGTH : COPY_BYTE_LENGTH;
  return length - (position % length);
}

/** Whether the piece can take the bytes of the write that follow its first `done` bytes. */
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
  const isShort =
    length <= SHORT_BYTE_LENGTH && byteLength + length <= MAX_SHORT_RANGES_BYTE_LENGTH;
  if (isNext(last, source, done)) return ranges.length === 1 || isShort;
  return isShort && last.byteLength <= SHORT_BYTE_LENGTH && ranges.length < MAX_SHORT_RANGES;
}

/** Whether the source, after its first `done` bytes, continues where the range ends. */
function isNext(
  { file, position, byteLength }: CopiedRange,
  source: FileSource,
  done: number,
): boolean {
  return file.fd === source.file.fd && position + byteLength === source.position + done;
}

/** Adds the bytes of the source that follow its first `done` bytes. */
function addRange({ ranges }: Piece, source: FileSource, done: number, byteLength: number): void {
  const last = ranges.at(-1);
  if (last === undefined || !isNext(last, source, done)) {
    ranges.push({ file: source.file, position: source.position + done, byteLength });
    return;
  }
  last.byteLength += byteLength;
}

/** Joins neighbours and cuts long ranges. Asks for memory only when its turn has come. */
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

/** Too few bytes, such as those of a buffer detached meanwhile, would leave a hole in the file. */
function take(source: MemorySource, begin: number, end: number): Uint8Array {
  const view = source(begin, end);
  if (view.byteLength === end - begin) return view;
  throw argumentRangeError('the length of the bytes to write', `${end - begin}`, view.byteLength);
}

/**
 * Writes the ranges, which must not overlap and are best given in the order of the file. All
 * descriptors must stay open until the promise settles. Only the pieces under way take memory.
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

/**
 * Writes the ranges on this thread, one after the other, those of files through a buffer.
 *
 * @throws As {@link writePieces}
 */
export function writePiecesSync(target: WrittenFile, writes: Iterable<Write>): void {
  for (const { position, byteLength, source } of writes) {
    const memory = typeof source === 'function' ? source : throughBuffer(source, byteLength);
    for (let done = 0; done < byteLength; done += WRITE_BYTE_LENGTH) {
      const end = Math.min(done + WRITE_BYTE_LENGTH, byteLength);
      writeViewSync(target, take(memory, done, end), position + done);
    }
  }
}

/** Reads a file as if it were memory. Every call overwrites what the one before gave. */
function throughBuffer({ file, position }: FileSource, byteLength: number): MemorySource {
  const buffer = new Uint8Array(Math.min(byteLength, WRITE_BYTE_LENGTH));
  return (begin, end) => {
    const view = buffer.subarray(0, end - begin);
    runSync(readFully(readBytesOf(file), view, position + begin, file.path));
    return view;
  };
}
