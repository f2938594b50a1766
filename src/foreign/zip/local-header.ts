/** Checks the header before an entry's bytes and the descriptor after them against the directory. */

import { type DirectoryEntry, FULL_32, isEqual } from './directory.js';
import { dataViewOf, describeExtraField, parseExtraFields, uint64 } from './extra-fields.js';
import type { IrregularityKind, Report } from './irregularity.js';
import type { Read } from './window-reader.js';

const LOCAL_SIGNATURE = 0x04034b50;
const LOCAL_FIXED_BYTE_LENGTH = 30;

const DESCRIPTOR_SIGNATURE = 0x08074b50;

/** The flag for CRC and sizes after the data. */
const DESCRIPTOR_FLAG = 1 << 3;

/** Returns the name of an archive's first entry, a character per byte, as far as `start` has it. */
export function firstEntryName(start: Uint8Array): string {
  if (start.length < LOCAL_FIXED_BYTE_LENGTH) return '';
  const nameEnd = LOCAL_FIXED_BYTE_LENGTH + dataViewOf(start).getUint16(26, true);
  return String.fromCharCode(...start.subarray(LOCAL_FIXED_BYTE_LENGTH, nameEnd));
}

/** Returns the position of an entry's bytes; undefined when it cannot be known. */
export function readLocalHeader(
  entry: DirectoryEntry,
  read: Read,
  report: Report,
): number | undefined {
  const position = entry.headerBegin;
  const irregular = (message: string): void =>
    report({ kind: 'local-header', message, position, entry: entry.name });
  const nameBegin = position + LOCAL_FIXED_BYTE_LENGTH;
  const fixed = read(position, nameBegin);
  const view = fixed && dataViewOf(fixed);
  if (view === undefined || view.getUint32(0, true) !== LOCAL_SIGNATURE) {
    irregular('expected a local header, found none');
    return undefined;
  }
  const nameByteLength = view.getUint16(26, true);
  const dataBegin = nameBegin + nameByteLength + view.getUint16(28, true);
  const rest = read(nameBegin, dataBegin);
  if (rest === undefined) {
    irregular('expected a local header within the file');
    return undefined;
  }
  const name = rest.subarray(0, nameByteLength);
  const extra = rest.subarray(nameByteLength);
  const fields = parseExtraFields(extra);
  const isNamed = isEqual(name, entry.nameBytes) && isEqual(fields?.unicodeName ?? name, name);
  if (!isNamed) {
    irregular('expected the same name as in the directory, found another');
  }
  const flags = view.getUint16(6, true);
  const method = view.getUint16(8, true);
  if (flags !== entry.flags || method !== entry.methodNumber) {
    const expected = `flags ${entry.flags} and method ${entry.methodNumber}`;
    irregular(`expected ${expected}, found ${flags} and ${method}`);
  }
  if (fields?.unknown !== undefined) {
    const message = describeExtraField(fields.unknown);
    report({ kind: 'extra-field', message, position, entry: entry.name });
  }
  const sizes = fields && sizesOf(view, fields.zip64);
  if (sizes === undefined) {
    irregular('expected whole extra fields, with the sizes that need a zip64 field');
    return dataBegin;
  }
  const crc32 = view.getUint32(14, true);
  const isLeftOpen = hasDescriptor(entry) && crc32 === 0 && sizes[0] === 0 && sizes[1] === 0;
  if (!isLeftOpen && !isSame(entry, crc32, sizes)) {
    const expected = `the CRC and sizes of the directory, ${shownSizes(entry)}`;
    irregular(`expected ${expected}, found ${crc32}, ${sizes.join(', ')}`);
  }
  return dataBegin;
}

/** Whether a descriptor follows the bytes of the entry. */
function hasDescriptor({ flags }: DirectoryEntry): boolean {
  return (flags & DESCRIPTOR_FLAG) !== 0;
}

/**
 * The sizes, compressed first. A zip64 field counts only when a size refers to it: torch writes one with the
 * header's own position next to sizes of 0.
 */
function sizesOf(fixed: DataView, zip64: DataView | undefined): [number, number] | undefined {
  const stored = fixed.getUint32(18, true);
  const whole = fixed.getUint32(22, true);
  const isStoredWide = stored === FULL_32;
  const isWholeWide = whole === FULL_32;
  if (!isStoredWide && !isWholeWide) return [stored, whole];
  if (zip64?.byteLength === 16) {
    const [wide, wideStored] = [uint64(zip64, 0), uint64(zip64, 8)];
    return [isStoredWide ? wideStored : stored, isWholeWide ? wide : whole];
  }
  if (zip64?.byteLength !== 8 || isStoredWide === isWholeWide) return undefined;
  const wide = uint64(zip64, 0);
  return isStoredWide ? [wide, whole] : [stored, wide];
}

/**
 * Checks the bytes between an entry and the next header: none, or the descriptor, with or
 * without a signature, with sizes of 32 or 64 bits. Its length tells which.
 */
export function readDescriptor(
  entry: DirectoryEntry,
  begin: number,
  end: number,
  read: Read,
  report: Report,
): void {
  const irregular = (kind: IrregularityKind, message: string): void =>
    report({ kind, message, position: begin, entry: entry.name });
  if (begin > end) {
    irregular('overlap', `expected its bytes to end by byte ${end}, found ${begin}`);
    return;
  }
  const length = end - begin;
  if (!hasDescriptor(entry)) {
    if (length > 0) irregular('gap', `expected no bytes up to the next entry, found ${length}`);
    return;
  }
  const bytes = [12, 16, 20, 24].includes(length) ? read(begin, end) : undefined;
  if (bytes === undefined) {
    irregular('gap', `expected a descriptor of 12, 16, 20 or 24 bytes, found ${length} bytes`);
    return;
  }
  const view = dataViewOf(bytes);
  const isSigned = length === 16 || length === 24;
  const at = isSigned ? 4 : 0;
  const sizes: [number, number] =
    length < 20
      ? [view.getUint32(at + 4, true), view.getUint32(at + 8, true)]
      : [uint64(view, at + 4), uint64(view, at + 12)];
  const crc32 = view.getUint32(at, true);
  const isMarked = !isSigned || view.getUint32(0, true) === DESCRIPTOR_SIGNATURE;
  if (!isMarked || !isSame(entry, crc32, sizes)) {
    const expected = `a descriptor with ${shownSizes(entry)}`;
    irregular('descriptor', `expected ${expected}, found ${crc32}, ${sizes.join(', ')}`);
  }
}

function isSame(entry: DirectoryEntry, crc32: number, [stored, whole]: [number, number]): boolean {
  return entry.crc32 === crc32 && entry.storedByteLength === stored && entry.byteLength === whole;
}

function shownSizes({ crc32, storedByteLength, byteLength }: DirectoryEntry): string {
  return `${crc32}, ${storedByteLength}, ${byteLength}`;
}
