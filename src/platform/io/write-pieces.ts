/** Writes many ranges of a file, from memory and from other files, in large pieces. */

import { argumentRangeError } from '../../errors/arguments.js';
import { cut, type FileRange, merge, type Part, type Piece } from '../../work/byte-ranges.js';
import { Slots } from '../../work/slots.js';
import type { PieceMover } from '../../work/transfer.js';
import type { AcquirableFile } from './acquirable-file.js';
import { MAX_VIEWS } from './byte-views.js';
import { copyRanges, type WrittenFile, writeViews } from './file-writes.js';
import type { ReadFile } from './pool-calls.js';
import { maxRetainedDescriptors } from './reclaimable-descriptors.js';

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
 * Slots shared by all files of the thread. The system runs one write to a file at a time; a second one waits in the
 * pool, ready. A third gains nothing.
 */
const slots = new Slots(2);

/** Bytes of another file, from `position` on. */
interface FileSource {
  readonly file: AcquirableFile;
  readonly position: number;
}

/**
 * Returns the bytes [begin, end) of a range right before they are written. Their memory must stay until then.
 */
type MemorySource = (begin: number, end: number) => Uint8Array;

/** A range of the new file, and the source of its bytes. */
export interface Write extends FileRange {
  readonly source: MemorySource | FileSource;
}

/** The write of bytes in memory. */
export function writeFrom(bytes: Uint8Array, position: number): Write {
  const { byteLength } = bytes;
  return { position, byteLength, source: (begin, end) => bytes.subarray(begin, end) };
}

/** A range of a file that is to be copied. */
interface AcquirableRange extends FileRange {
  readonly file: AcquirableFile;
}

/** A part of a write: the bytes after its first `done`. */
interface WritePart extends Write {
  readonly done: number;
}

/** Whether it begins where the piece ends. */
function isBehind(piece: FileRange, { position }: FileRange): boolean {
  return piece.position + piece.byteLength === position;
}

/** Ranges that follow each other both in the new file and in another one are one copy. */
function* joinedCopies(writes: Iterable<Write>): Generator<Write, void, void> {
  let copy: Write | undefined;
  for (const write of writes) {
    const joined = copy && joinedCopy(copy, write);
    if (joined !== undefined) {
      copy = joined;
      continue;
    }
    if (copy !== undefined) yield copy;
    copy = typeof write.source === 'function' ? undefined : write;
    if (copy === undefined) yield write;
  }
  if (copy !== undefined) yield copy;
}

/** Returns the copy of both ranges; undefined for ranges that are not neighbours. */
function joinedCopy({ position, byteLength, source }: Write, next: Write): Write | undefined {
  const { source: nextSource } = next;
  if (typeof source === 'function' || typeof nextSource === 'function') return undefined;
  const areNeighbours =
    position + byteLength === next.position &&
    source.file === nextSource.file &&
    source.position + byteLength === nextSource.position;
  return areNeighbours ? { position, byteLength: byteLength + next.byteLength, source } : undefined;
}

/** Cuts are at multiples of a length, which are multiples of a page. */
function* writeParts(writes: Iterable<Write>): Generator<WritePart, void, void> {
  for (const { position, byteLength, source } of joinedCopies(writes)) {
    const length = typeof source === 'function' ? WRITE_BYTE_LENGTH : COPY_BYTE_LENGTH;
    // Most are short, and there may be a hundred thousand.
    if (byteLength > 0 && (position % length) + byteLength <= length) {
      yield { position, byteLength, source, done: 0 };
      continue;
    }
    for (const { begin, end } of cut(position, position + byteLength, length, 0)) {
      yield { position: begin, byteLength: end - begin, source, done: begin - position };
    }
  }
}

/** Whether a part can be written by the same call as the ones before it. */
function joins(piece: Piece<WritePart>, part: WritePart): boolean {
  const { parts, byteLength } = piece;
  const { range: last } = parts.at(-1) as Part<WritePart>;
  if (!isBehind(piece, part)) return false;
  if (typeof part.source === 'function') {
    const isFull = part.position % WRITE_BYTE_LENGTH === 0 || parts.length === MAX_VIEWS;
    return typeof last.source === 'function' && !isFull;
  }
  return (
    typeof last.source !== 'function' &&
    last.byteLength <= SHORT_BYTE_LENGTH &&
    part.byteLength <= SHORT_BYTE_LENGTH &&
    part.position % COPY_BYTE_LENGTH !== 0 &&
    byteLength + part.byteLength <= MAX_SHORT_RANGES_BYTE_LENGTH &&
    parts.length < MAX_SHORT_RANGES
  );
}

/** Too few bytes, such as those of a buffer detached meanwhile, would leave a hole in the file. */
function take(source: MemorySource, begin: number, end: number): Uint8Array {
  const view = source(begin, end);
  if (view.byteLength === end - begin) return view;
  throw argumentRangeError('the length of the bytes to write', `${end - begin}`, view.byteLength);
}

/**
 * Writes the ranges, which must not overlap and are best given in the order of the file. Only the
 * pieces under way take memory, and acquire their files.
 *
 * @param onWritten is called for each piece once it is written
 * @throws FileChangedError when a file ends before a range of it does; errors of the system, with
 * the target's path
 */
export async function writePieces(
  target: WrittenFile,
  writes: Iterable<Write>,
  transfer: PieceMover,
  onWritten?: (position: number, byteLength: number) => void,
): Promise<void> {
  await transfer.run(merge(writeParts(writes), { joins }), slots, async (piece) => {
    const views: Uint8Array[] = [];
    const ranges: AcquirableRange[] = [];
    for (const { range } of piece.parts) {
      const { source, done, byteLength } = range;
      if (typeof source === 'function') views.push(take(source, done, done + byteLength));
      else ranges.push({ file: source.file, position: source.position + done, byteLength });
    }
    if (ranges.length === 0) await writeViews(target, views, piece.position);
    else await copyAcquired(ranges, target, piece.position);
    onWritten?.(piece.position, piece.byteLength);
    return piece.byteLength;
  });
}

/** Copies ranges of a piece; those of a few files at a time once the process has run out of descriptors. */
async function copyAcquired(
  ranges: readonly AcquirableRange[],
  target: WrittenFile,
  position: number,
): Promise<void> {
  const maxFiles = maxRetainedDescriptors() / (2 * slots.size);
  let begin = position;
  for (const group of groupsOf(ranges, maxFiles)) {
    const open = new Map<AcquirableFile, ReadFile>();
    try {
      for (const { file } of group) {
        if (!open.has(file)) open.set(file, { fd: file.acquire(), path: file.path });
      }
      const copied = group.map((range) => ({ ...range, file: open.get(range.file) as ReadFile }));
      await copyRanges(copied, target, begin);
    } finally {
      for (const file of open.keys()) file.release();
    }
    for (const { byteLength } of group) begin += byteLength;
  }
}

/** Cuts the ranges into groups of so many files at most. */
function* groupsOf(
  ranges: readonly AcquirableRange[],
  maxFiles: number,
): Generator<readonly AcquirableRange[], void, void> {
  let group: AcquirableRange[] = [];
  const files = new Set<AcquirableFile>();
  for (const range of ranges) {
    if (files.size >= maxFiles && !files.has(range.file)) {
      yield group;
      group = [];
      files.clear();
    }
    group.push(range);
    files.add(range.file);
  }
  yield group;
}
