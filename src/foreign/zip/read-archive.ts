/** A zip archive's entries: of one that is beyond doubt, or with all that is doubtful. */

import { type ErrorContext, ForeignFormatError, quoteName } from '../../errors/errors.js';
import type { Archive, ArchiveEntry, ByteReader } from './archive.js';
import { HARMLESS_KINDS, type Irregularity } from './irregularity.js';
import type { ArchiveLimits } from './limits.js';
import { walkArchive } from './walk.js';

/** An archive, and everything that is irregular about it. */
export interface InspectedArchive {
  /** The files that can be read nevertheless, in the order of their bytes; names may come twice. */
  readonly entries: readonly ArchiveEntry[];
  readonly irregularities: readonly Irregularity[];
}

/** The most irregularities that are listed. */
const MAX_IRREGULARITIES = 1000;

/**
 * Reads the directory and every header of an archive; of the entries' bytes none.
 *
 * @throws ForeignFormatError `SAFETENSORS_INVALID_ARCHIVE` at the first irregularity,
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

/** Reads as much as can be read, and lists what is irregular: the first thousand. Never throws for it. */
export function inspectArchive(file: ByteReader, limits: ArchiveLimits = {}): InspectedArchive {
  const irregularities: Irregularity[] = [];
  const entries = walkArchive(file, limits, (irregularity) => {
    if (irregularities.length < MAX_IRREGULARITIES) irregularities.push(irregularity);
  });
  return { entries, irregularities };
}

function archiveError(found: Irregularity, context: ErrorContext): ForeignFormatError {
  const { kind, message, position, entry } = found;
  // Whoever reads an archive has seen that it begins as one.
  if (kind === 'cut-short') {
    const whole = `the file is incomplete: ${message}, at byte ${position}; fetch it again`;
    return new ForeignFormatError('SAFETENSORS_INCOMPLETE_FILE', whole, context);
  }
  const code = kind === 'limit' ? 'SAFETENSORS_FOREIGN_LIMIT' : 'SAFETENSORS_INVALID_ARCHIVE';
  const subject = entry === undefined ? '' : `entry ${quoteName(entry)}: `;
  return new ForeignFormatError(code, `${subject}${message}, at byte ${position}`, context);
}
