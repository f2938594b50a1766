/** Reads the directory of an archive: the declared facts of each entry. */

import type { ByteReader } from './archive.js';
import type { DirectoryPlace } from './end-record.js';
import { decodeName, isFolderName } from './entry-name.js';
import { dataViewOf, describeExtraField, parseExtraFields, uint64 } from './extra-fields.js';
import type { IrregularityKind, Report } from './irregularity.js';
import { MAX_DEFLATE_RATIO } from './limits.js';

const DIRECTORY_SIGNATURE = 0x02014b50;
const DIRECTORY_FIXED_BYTE_LENGTH = 46;

/** The value of a 32-bit field that is too small for its number. */
export const FULL_32 = 0xffffffff;

/** How hard it was compressed (1, 2), sizes after the data (3), a name in UTF-8 (11). */
const HARMLESS_FLAGS = 0b1000_0000_1110;
const ENCRYPTION_FLAGS = 0b10_0000_0100_0001;

/** Attribute of DOS. Torch reads no bytes of such an entry, whatever its name, and leaves memory as it was. */
const DOS_FOLDER = 0x10;

const UNIX_KIND_MASK = 0xf000;
const UNIX_LINK = 0xa000;

/** Bytes that are not compressible cost deflate 5 for each 16 kB or more of them; flushes cost 5 more. */
const MAX_DEFLATE_EXPANSION = 2;
const MAX_DEFLATE_OVERHEAD = 1024;

/** Deflate's output for empty input. Some tools deflate folders. */
const EMPTY_DEFLATED = 2;

const METHODS: ReadonlyMap<number, 'stored' | 'deflated'> = new Map([
  [0, 'stored'],
  [8, 'deflated'],
]);

/** An entry as declared in the directory. */
export interface DirectoryEntry {
  readonly name: string;
  readonly nameBytes: Uint8Array;
  readonly flags: number;
  readonly methodNumber: number;
  /** Undefined for unsupported methods. */
  readonly method: 'stored' | 'deflated' | undefined;
  readonly crc32: number;
  /** Length of the bytes in the archive. */
  readonly storedByteLength: number;
  readonly byteLength: number;
  /** Position of its local header in the file. */
  readonly headerBegin: number;
}

/** Reads the directory. Entries without a place in the file are left out. */
export function readDirectory(
  file: ByteReader,
  place: DirectoryPlace,
  report: Report,
): DirectoryEntry[] {
  const bytes = file.read(place.begin, place.end);
  const view = dataViewOf(bytes);
  const entries: DirectoryEntry[] = [];
  let at = 0;
  for (let index = 0; index < place.entryCount; index++) {
    const position = place.begin + at;
    const nameBegin = at + DIRECTORY_FIXED_BYTE_LENGTH;
    if (nameBegin > bytes.length || view.getUint32(at, true) !== DIRECTORY_SIGNATURE) {
      const message = `expected ${place.entryCount} entries in the directory, found no entry ${index}`;
      report({ kind: 'end-record', message, position });
      return entries;
    }
    const nameEnd = nameBegin + view.getUint16(at + 28, true);
    const extraEnd = nameEnd + view.getUint16(at + 30, true);
    const next = extraEnd + view.getUint16(at + 32, true);
    if (next > bytes.length) {
      const message = `expected entry ${index} of the directory to end within it`;
      report({ kind: 'end-record', message, position });
      return entries;
    }
    if (next > extraEnd) {
      const message = `expected no comment of an entry, found ${next - extraEnd} bytes`;
      report({ kind: 'comment', message, position: place.begin + extraEnd });
    }
    const entry = readDirectoryEntry(
      view,
      at,
      bytes.subarray(nameBegin, nameEnd),
      bytes.subarray(nameEnd, extraEnd),
      position,
      place.shift,
      report,
    );
    if (entry !== undefined) entries.push(entry);
    at = next;
  }
  if (at !== bytes.length) {
    const message = `expected the directory to end at byte ${place.begin + at}, found ${bytes.length - at} more bytes`;
    report({ kind: 'end-record', message, position: place.begin + at });
  }
  return entries;
}

/** Reads the entry whose fixed part begins at `at` of the directory. */
function readDirectoryEntry(
  view: DataView,
  at: number,
  nameBytes: Uint8Array,
  extra: Uint8Array,
  position: number,
  shift: number,
  report: Report,
): DirectoryEntry | undefined {
  const flags = view.getUint16(at + 8, true);
  const methodNumber = view.getUint16(at + 10, true);
  const crc32 = view.getUint32(at + 16, true);
  const decoded = decodeName(nameBytes);
  const name =
    'name' in decoded ? decoded.name : String.fromCharCode(...nameBytes.subarray(0, 200));
  const irregular = (kind: IrregularityKind, message: string): void =>
    report({ kind, message, position, entry: name });
  if ('problem' in decoded) {
    irregular('name', `expected the name of an entry to be a relative path: ${decoded.problem}`);
  }
  if ((flags & ENCRYPTION_FLAGS) !== 0) {
    irregular('encrypted', 'expected bytes in the clear, found encrypted ones');
  } else if ((flags & ~HARMLESS_FLAGS) !== 0) {
    irregular('directory', `expected no flags but bits 1, 2, 3 and 11, found ${flags.toString(2)}`);
  }
  const method = METHODS.get(methodNumber);
  if (method === undefined) {
    irregular('method', `expected method 0 (stored) or 8 (deflated), found ${methodNumber}`);
  }
  const attributes = view.getUint32(at + 38, true);
  if (((attributes >>> 16) & UNIX_KIND_MASK) === UNIX_LINK) {
    irregular('link', 'expected a file or a folder, found a symbolic link');
  }
  if ((attributes & DOS_FOLDER) !== 0 && !isFolderName(name)) {
    irregular('directory', 'expected a file, found one that its attributes call a folder');
  }
  const fields = parseExtraFields(extra);
  const numbers = fields && wideNumbers(view, at, fields.zip64);
  if (fields === undefined || numbers === undefined) {
    irregular(
      'directory',
      'expected whole extra fields, and a zip64 field of just the numbers that need it',
    );
    return undefined;
  }
  const { unicodeName, unknown } = fields;
  if (unknown !== undefined) irregular('extra-field', describeExtraField(unknown));
  if (unicodeName !== undefined && !isEqual(unicodeName, nameBytes)) {
    irregular('name', 'expected one name, found a different Unicode name');
  }
  const { byteLength, storedByteLength, headerBegin } = numbers;
  if (!mayBe(name, method, storedByteLength, byteLength)) {
    irregular(
      'directory',
      `${storedByteLength} ${method} bytes cannot be ${byteLength} bytes of that entry`,
    );
  }
  return {
    name,
    nameBytes,
    flags,
    methodNumber,
    method,
    crc32,
    byteLength,
    storedByteLength,
    headerBegin: headerBegin + shift,
  };
}

/** Whether the stored length can inflate to the declared one, and a folder is empty. */
function mayBe(
  name: string,
  method: DirectoryEntry['method'],
  storedByteLength: number,
  byteLength: number,
): boolean {
  if (isFolderName(name)) return byteLength === 0 && storedByteLength <= EMPTY_DEFLATED;
  if (method === undefined) return true;
  if (method === 'stored') return byteLength === storedByteLength;
  const most = byteLength * MAX_DEFLATE_EXPANSION + MAX_DEFLATE_OVERHEAD;
  return byteLength <= storedByteLength * MAX_DEFLATE_RATIO && storedByteLength <= most;
}

/** Reads sizes and position; numbers too large for their fields are in the zip64 field, in this order. */
function wideNumbers(
  view: DataView,
  at: number,
  zip64: DataView | undefined,
): Pick<DirectoryEntry, 'byteLength' | 'storedByteLength' | 'headerBegin'> | undefined {
  let read = 0;
  let isWhole = true;
  const number = (field: number): number => {
    const value = view.getUint32(at + field, true);
    if (value !== FULL_32) return value;
    const wideAt = read;
    read += 8;
    isWhole &&= zip64 !== undefined && read <= zip64.byteLength;
    return isWhole ? uint64(zip64 as DataView, wideAt) : 0;
  };
  const byteLength = number(24);
  const storedByteLength = number(20);
  const headerBegin = number(42);
  const isExact =
    isWhole && read === (zip64?.byteLength ?? 0) && view.getUint16(at + 34, true) === 0;
  return isExact ? { byteLength, storedByteLength, headerBegin } : undefined;
}

/** Whether two arrays have the same bytes. */
export function isEqual(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return false;
  return true;
}
