/** Compares the bytes of an archive's entries with the checksums of its directory. */

import { crc32 } from 'node:zlib';
import { Slots, Transfer, type TransferOptions } from '../io/transfer.js';
import type { Storage } from '../storage/storage.js';
import { storageReader } from './open-file.js';
import type { ArchiveEntry } from './zip/archive.js';
import type { ArchiveLimits } from './zip/limits.js';
import { readEntry, requireCrc32 } from './zip/read-entry.js';

/** Takes about two milliseconds of this thread. */
const PIECE_BYTE_LENGTH = 4 * 2 ** 20;

/** Entries, and what inflating one may cost. */
export interface ArchiveContent {
  readonly entries: readonly ArchiveEntry[];
  readonly limits: ArchiveLimits;
}

/** A part of a stored entry, or a deflated one as a whole. */
interface Piece {
  readonly entry: ArchiveEntry;
  readonly begin: number;
  readonly end: number;
}

/**
 * Reads all bytes of the entries; the event loop turns between pieces of 4 MiB, and within what is deflated
 * never.
 *
 * @throws ForeignFormatError `SAFETENSORS_CHECKSUM_MISMATCH`; as `readEntry` for deflated ones
 * @throws FileChangedError, FileClosedError, `signal.reason`
 */
export async function verifyEntries(
  storage: Storage,
  { entries, limits }: ArchiveContent,
  options: TransferOptions,
): Promise<void> {
  const context = { path: storage.path };
  const totalBytes = entries.reduce((sum, { begin, end }) => sum + end - begin, 0);
  const transfer = new Transfer(totalBytes, options, () => storage.verify());
  const reader = storageReader(storage);
  for (const entry of entries) if (entry.begin === entry.end) requireCrc32(entry, 0, context);
  let found = 0;
  // A checksum goes on where it stopped: one piece after the other.
  await transfer.run(piecesOf(entries), new Slots(1), async ({ entry, begin, end }) => {
    await storage.populate?.(begin, end);
    if (entry.method === 'deflated') {
      readEntry(reader, entry, context, limits);
      return end - begin;
    }
    const bytes = storage.zeroCopy ? storage.window(begin, end) : reader.read(begin, end);
    found = crc32(bytes, begin === entry.begin ? 0 : found);
    // A file that was cut short reads as zeros.
    storage.verify();
    if (end === entry.end) requireCrc32(entry, found, context);
    return end - begin;
  });
}

function* piecesOf(entries: readonly ArchiveEntry[]): Generator<Piece, void, void> {
  for (const entry of entries) {
    const step = entry.method === 'stored' ? PIECE_BYTE_LENGTH : Number.POSITIVE_INFINITY;
    for (let { begin } = entry; begin < entry.end; begin += step) {
      yield { entry, begin, end: Math.min(begin + step, entry.end) };
    }
  }
}
