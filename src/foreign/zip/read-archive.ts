/** Reads the entries of a zip archive: refuses an irregular one, or lists its irregularities. */

import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';
import type { Archive, ArchiveEntry, ByteReader } from './archive.js';
import { type DirectoryEntry, readDirectory } from './directory.js';
import { findDirectory } from './end-record.js';
import { foldCase, isFolderName } from './entry-name.js';
import { HARMLESS_KINDS, type Irregularity, type Report } from './irregularity.js';
import { type ArchiveLimits, DEFAULT_LIMITS } from './limits.js';
import { readDescriptor, readLocalHeader } from './local-header.js';
import { windowReader } from './window-reader.js';

/** An archive, and its irregularities. */
interface InspectedArchive {
  /** The readable files, in the order of their bytes; names may repeat. */
  readonly entries: readonly ArchiveEntry[];
  readonly irregularities: readonly Irregularity[];
}

/** Most irregularities in a list. */
const MAX_IRREGULARITIES = 1000;

/**
 * Reads the directory and every header of an archive, but no entry's bytes.
 *
 * @throws FormatError `SAFETENSORS_INVALID_ARCHIVE` at the first irregularity,
 *   `SAFETENSORS_INCOMPLETE_FILE` without an end record, `SAFETENSORS_FOREIGN_LIMIT`
 */
export function readArchive(
  file: ByteReader,
  context: ErrorContext,
  limits: ArchiveLimits = {},
): Archive {
  const entries = walkArchive(file, limits, (irregularity) => {
    if (!HARMLESS_KINDS.includes(irregularity.kind)) throw archiveError(irregularity, context);
  });
  const byName = new Map<string, ArchiveEntry>();
  for (const entry of entries) byName.set(entry.name, entry);
  return { entries: byName };
}

/** Reads as much as can be read, and lists the first thousand irregularities. Never throws for them. */
export function inspectArchive(file: ByteReader, limits: ArchiveLimits = {}): InspectedArchive {
  const irregularities: Irregularity[] = [];
  const entries = walkArchive(file, limits, (irregularity) => {
    if (irregularities.length < MAX_IRREGULARITIES) irregularities.push(irregularity);
  });
  return { entries, irregularities };
}

function archiveError(found: Irregularity, context: ErrorContext): FormatError {
  const { kind, message, position, entry } = found;
  // The caller has seen that the file begins as an archive.
  if (kind === 'cut-short') {
    const whole = `the file is incomplete: ${message}, at byte ${position}; fetch it again`;
    return new FormatError('SAFETENSORS_INCOMPLETE_FILE', whole, context);
  }
  const code = kind === 'limit' ? 'SAFETENSORS_FOREIGN_LIMIT' : 'SAFETENSORS_INVALID_ARCHIVE';
  const subject = entry === undefined ? '' : `entry ${quoteName(entry)}: `;
  return new FormatError(code, `${subject}${message}, at byte ${position}`, context);
}

/**
 * Walks the whole archive and reports every irregularity. Without irregularities all readers see the same files in
 * it: the directory names each byte of the archive once, and every header agrees with it. Returns the files that
 * can be read, in the order of their bytes.
 */
function walkArchive(file: ByteReader, limits: ArchiveLimits, report: Report): ArchiveEntry[] {
  const place = findDirectory(file, report);
  if (place === undefined) return [];
  const { maxEntries = DEFAULT_LIMITS.maxEntries } = limits;
  const { maxDirectoryByteLength = DEFAULT_LIMITS.maxDirectoryByteLength } = limits;
  const position = place.begin;
  if (place.entryCount > maxEntries) {
    const message = `expected at most ${maxEntries} entries (limits.maxEntries), found ${place.entryCount}`;
    report({ kind: 'limit', message, position });
    return [];
  }
  const directoryByteLength = place.end - place.begin;
  if (directoryByteLength > maxDirectoryByteLength) {
    const message = `expected a directory of at most ${maxDirectoryByteLength} bytes (limits.maxDirectoryByteLength), found ${directoryByteLength}`;
    report({ kind: 'limit', message, position });
    return [];
  }
  const listed = readDirectory(file, place, report);
  findDuplicates(listed, report);
  const entries: ArchiveEntry[] = [];
  const read = windowReader(file);
  const ordered = listed.toSorted((a, b) => a.headerBegin - b.headerBegin);
  const first = ordered[0]?.headerBegin ?? place.begin;
  if (first !== Math.max(0, place.shift)) {
    const message = `expected the first entry at byte 0, found it at ${first}`;
    report({ kind: 'surroundings', message, position: first });
  }
  for (const [index, entry] of ordered.entries()) {
    const begin = readLocalHeader(entry, read, report);
    if (begin === undefined) continue;
    const end = begin + entry.storedByteLength;
    const next = ordered[index + 1]?.headerBegin ?? place.begin;
    readDescriptor(entry, end, next, read, report);
    const { name, method, byteLength, crc32 } = entry;
    if (method === undefined || end > file.byteLength || isFolderName(name)) continue;
    entries.push({ name, method, begin, end, byteLength, crc32 });
  }
  return ordered.some(({ crc32 }) => crc32 !== 0) ? entries : entries.map(withoutChecksum);
}

function withoutChecksum(entry: ArchiveEntry): ArchiveEntry {
  return { ...entry, crc32: null };
}

function findDuplicates(entries: readonly DirectoryEntry[], report: Report): void {
  const seen = new Set<string>();
  for (const { name, headerBegin } of entries) {
    const folded = foldCase(name);
    if (seen.has(folded)) {
      const message = 'expected a single entry of that name, ignoring case, found another';
      report({ kind: 'duplicate-name', message, position: headerBegin, entry: name });
    }
    seen.add(folded);
  }
}
