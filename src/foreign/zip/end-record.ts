/** Finds the directory of an archive by the records at its end. */

import type { ByteReader } from './archive.js';
import { dataViewOf, uint64 } from './extra-fields.js';
import type { Report } from './irregularity.js';

const END_SIGNATURE = 0x06054b50;
/** The record at the very end, without its comment. */
export const END_BYTE_LENGTH = 22;
const MAX_COMMENT_BYTE_LENGTH = 0xffff;

const LOCATOR_SIGNATURE = 0x07064b50;
const LOCATOR_BYTE_LENGTH = 20;

const END64_SIGNATURE = 0x06064b50;
const END64_BYTE_LENGTH = 56;
/** The record's length field does not count its first two fields. */
const END64_REST_BYTE_LENGTH = END64_BYTE_LENGTH - 12;

/** Position of the directory in the file, and its number of entries. */
export interface DirectoryPlace {
  readonly begin: number;
  readonly end: number;
  readonly entryCount: number;
  /** The offset of positions in the archive: not 0 when bytes stand before it. */
  readonly shift: number;
}

/** The fields of the end record, in numbers of any width. */
interface EndFields {
  readonly disk: number;
  readonly directoryDisk: number;
  readonly entriesOnDisk: number;
  readonly entries: number;
  readonly byteLength: number;
  readonly offset: number;
}

/** The last bytes of a file, and the position of its end record in them. */
interface Tail {
  readonly tail: DataView;
  readonly at: number | undefined;
}

/** Reads the end records, and more only for a comment or the lack of an end record. */
function readTail(file: ByteReader): Tail {
  const read = (byteLength: number): Tail => {
    const begin = Math.max(0, file.byteLength - byteLength);
    const tail = dataViewOf(file.read(begin, file.byteLength));
    return { tail, at: lastSignature(tail) };
  };
  const short = read(END64_BYTE_LENGTH + LOCATOR_BYTE_LENGTH + END_BYTE_LENGTH);
  if (short.at === short.tail.byteLength - END_BYTE_LENGTH) return short;
  return read(MAX_COMMENT_BYTE_LENGTH + END64_BYTE_LENGTH + LOCATOR_BYTE_LENGTH + END_BYTE_LENGTH);
}

/** Finds the directory; undefined when it cannot be found. */
export function findDirectory(file: ByteReader, report: Report): DirectoryPlace | undefined {
  const { tail, at } = readTail(file);
  const tailBegin = file.byteLength - tail.byteLength;
  if (at === undefined) {
    report({
      kind: 'cut-short',
      message: 'expected the end record of a zip archive at the end of the file, found none',
      position: Math.max(0, file.byteLength - END_BYTE_LENGTH),
    });
    return undefined;
  }
  const position = tailBegin + at;
  const expectedEnd = position + END_BYTE_LENGTH + tail.getUint16(at + 20, true);
  if (expectedEnd !== file.byteLength) {
    const message = `expected the archive to end the file at byte ${expectedEnd}, found ${file.byteLength} bytes`;
    report({ kind: 'surroundings', message, position });
  }
  if (expectedEnd > position + END_BYTE_LENGTH) {
    const message = `expected no comment of the archive, found ${expectedEnd - position - END_BYTE_LENGTH} bytes`;
    report({ kind: 'comment', message, position: position + END_BYTE_LENGTH });
  }
  const end = endFields(tail, at);
  const wide = findWide(tail, at, tailBegin, report);
  const fields = wide ?? end;
  if (wide !== undefined) compare(end, wide, position, report);
  if (fields.disk !== 0 || fields.directoryDisk !== 0 || fields.entriesOnDisk !== fields.entries) {
    const message = 'expected an archive in one file, found one of several disks';
    report({ kind: 'end-record', message, position });
  }
  // The directory stands right before the first of the end records.
  const directoryEnd =
    wide === undefined ? position : position - LOCATOR_BYTE_LENGTH - END64_BYTE_LENGTH;
  const begin = directoryEnd - fields.byteLength;
  if (begin < 0) {
    const message = `expected a directory of at most ${directoryEnd} bytes, found a length of ${fields.byteLength}`;
    report({ kind: 'end-record', message, position });
    return undefined;
  }
  const shift = begin - fields.offset;
  if (shift !== 0) {
    const message = `expected the directory at byte ${fields.offset} and right before the end record, found it at ${begin}`;
    report({ kind: shift > 0 ? 'surroundings' : 'end-record', message, position });
  }
  return { begin, end: directoryEnd, entryCount: fields.entries, shift };
}

/** Readers look for the last one, from where a record can end. */
function lastSignature(tail: DataView): number | undefined {
  for (let at = tail.byteLength - END_BYTE_LENGTH; at >= 0; at--) {
    if (tail.getUint32(at, true) === END_SIGNATURE) return at;
  }
  return undefined;
}

function endFields(tail: DataView, at: number): EndFields {
  return {
    disk: tail.getUint16(at + 4, true),
    directoryDisk: tail.getUint16(at + 6, true),
    entriesOnDisk: tail.getUint16(at + 8, true),
    entries: tail.getUint16(at + 10, true),
    byteLength: tail.getUint32(at + 12, true),
    offset: tail.getUint32(at + 16, true),
  };
}

/** The zip64 end record, which stands with its locator right before the end record. */
function findWide(
  tail: DataView,
  at: number,
  tailBegin: number,
  report: Report,
): EndFields | undefined {
  const locatorAt = at - LOCATOR_BYTE_LENGTH;
  if (locatorAt < 0 || tail.getUint32(locatorAt, true) !== LOCATOR_SIGNATURE) return undefined;
  const wideAt = locatorAt - END64_BYTE_LENGTH;
  const isRecord =
    wideAt >= 0 &&
    tail.getUint32(wideAt, true) === END64_SIGNATURE &&
    uint64(tail, wideAt + 4) === END64_REST_BYTE_LENGTH;
  if (!isRecord) {
    const message = 'expected a zip64 end record of 56 bytes right before its locator';
    report({ kind: 'end-record', message, position: tailBegin + locatorAt });
    return undefined;
  }
  const declared = uint64(tail, locatorAt + 8);
  const isHere = declared === tailBegin + wideAt;
  if (
    !isHere ||
    tail.getUint32(locatorAt + 4, true) !== 0 ||
    tail.getUint32(locatorAt + 16, true) !== 1
  ) {
    const message = `expected the zip64 end record at byte ${tailBegin + wideAt} of the only disk, found ${declared} in its locator`;
    report({ kind: 'end-record', message, position: tailBegin + locatorAt });
  }
  return {
    disk: tail.getUint32(wideAt + 16, true),
    directoryDisk: tail.getUint32(wideAt + 20, true),
    entriesOnDisk: uint64(tail, wideAt + 24),
    entries: uint64(tail, wideAt + 32),
    byteLength: uint64(tail, wideAt + 40),
    offset: uint64(tail, wideAt + 48),
  };
}

/** Checks that both records agree, or that the shorter one refers to the longer. */
function compare(end: EndFields, wide: EndFields, position: number, report: Report): void {
  const differs = (name: keyof EndFields, full: number): boolean =>
    end[name] !== wide[name] && end[name] !== full;
  if (
    differs('disk', 0xffff) ||
    differs('directoryDisk', 0xffff) ||
    differs('entriesOnDisk', 0xffff) ||
    differs('entries', 0xffff) ||
    differs('byteLength', 0xffffffff) ||
    differs('offset', 0xffffffff)
  ) {
    const message = 'expected the end record and the zip64 end record to agree';
    report({ kind: 'end-record', message, position });
  }
}
