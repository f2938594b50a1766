/** Compares the bytes of an archive's entries with the checksums of its directory. */

import { crc32 } from 'node:zlib';
import { FormatError } from '../errors/errors.js';
import { JoinedCrc32 } from '../platform/io/combined-crc32.js';
import { storageFill } from '../platform/storage/storage-fill.js';
import type { AsyncFill } from '../tensor/storage/computed.js';
import { type LeasableStorage, verifyOpen } from '../tensor/storage/storage.js';
import { allSettled } from '../work/all-settled.js';
import {
  type FileRange,
  type MergeLimits,
  merge,
  type Part,
  type Piece,
} from '../work/byte-ranges.js';
import { InOrder } from '../work/in-order.js';
import { Slots } from '../work/slots.js';
import { Transfer, type TransferOptions } from '../work/transfer.js';
import { crc32Parts } from './crc32-parts.js';
import { storageReader } from './open-file.js';
import { readEntry, requireCrc32 } from './read-entry.js';
import type { ArchiveEntry } from './zip/archive.js';
import type { ArchiveLimits } from './zip/limits.js';

/** The next pieces are read while one is added up: two for each of two threads. */
const CHECKED_AT_ONCE = 4;

/** Entries, and the limits for inflating one. */
export interface ArchiveContent {
  readonly entries: readonly ArchiveEntry[];
  readonly limits: ArchiveLimits;
}

/** A stored entry as a range of the archive. */
interface StoredRange extends FileRange {
  readonly entry: ArchiveEntry;
}

/** Neighbouring parts of stored entries, or a deflated entry. */
type CheckedPiece = Piece<StoredRange> | ArchiveEntry;

/** Maximum of bytes between two entries that are read together: the headers and padding of entries. */
const GAP_BYTE_LENGTH = 64 * 1024;

/** Most entries that are read together. */
const MAX_PARTS = 1024;

/**
 * Reads all entries with checksums, in long archives on separate threads. Deflated entries are inflated on this thread,
 * each in one turn of the event loop.
 *
 * @param report receives the error of an entry, in the order of the entries; by default it is thrown
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`; as `readEntry` for deflated ones
 * @throws FileChangedError, FileClosedError, `signal.reason`
 */
export async function verifyEntries(
  storage: LeasableStorage,
  { entries: all, limits }: ArchiveContent,
  options: TransferOptions,
  report: (problem: FormatError, entry: ArchiveEntry) => void = throwProblem,
): Promise<void> {
  const entries = all.filter(({ crc32: expected }) => expected !== null);
  const { path } = storage;
  const totalBytes = entries.reduce((sum, { begin, end }) => sum + end - begin, 0);
  const transfer = new Transfer(totalBytes, options, () => verifyOpen(storage));
  const check = (entry: ArchiveEntry, work: () => void): void => {
    try {
      work();
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      report(error, entry);
    }
  };
  const lease = storage.acquireDescriptor();
  const checksums = crc32Parts({ fd: lease.fd, path }, storage, totalBytes);
  const joined = new JoinedCrc32();
  const addPart = (
    { range: { entry, byteLength }, begin, end }: Part<StoredRange>,
    found: number,
  ): void => {
    const crc32 = joined.add(begin, end, found);
    if (end === byteLength) check(entry, () => requireCrc32(entry, crc32, { path }));
  };
  // The parts of an entry are joined in their order.
  const inOrder = new InOrder();
  try {
    const pieces = piecesOf(entries, checksums.pieceByteLength);
    await transfer.run(pieces, new Slots(CHECKED_AT_ONCE), async (piece) => {
      if (!('parts' in piece)) {
        const read = (): unknown => readEntry(storageReader(storage), piece, { path }, limits);
        await inOrder.use(undefined, () => check(piece, read));
        return piece.end - piece.begin;
      }
      const { position, byteLength, parts } = piece;
      const ranges = parts.map(({ range, begin, end }) => {
        return { begin: range.position + begin, end: range.position + end };
      });
      const reading = checksums.of({ begin: position, end: position + byteLength }, ranges);
      await inOrder.use(reading, (found) => {
        for (const [i, part] of parts.entries()) addPart(part, found[i] as number);
      });
      return parts.reduce((length, { begin, end }) => length + end - begin, 0);
    });
    verifyOpen(storage);
  } finally {
    // When a piece fails, others are still being read.
    await checksums.end();
    lease.release();
  }
}

function throwProblem(problem: FormatError): never {
  throw problem;
}

/**
 * Fills pieces with the bytes of a stored entry from position `begin` of the file on, and compares the checksum with
 * the last one. The pieces must be requested in order, each once.
 */
export function checkedFill(
  storage: LeasableStorage,
  entry: ArchiveEntry,
  begin: number,
): AsyncFill {
  const { path } = storage;
  const read = storageFill(storage, begin);
  let found = 0;
  const addStart = async (): Promise<void> => {
    const start = new Uint8Array(begin - entry.begin);
    if (start.length > 0) await storageFill(storage, entry.begin)(start, 0);
    found = crc32(start);
  };
  let before: Promise<unknown> | undefined;
  return (target, position) => {
    before ??= addStart();
    const piece = allSettled([read(target, position), before]).then(() => {
      found = crc32(target, found);
      if (begin + position + target.length === entry.end) requireCrc32(entry, found, { path });
    });
    before = piece;
    return piece;
  };
}

function* piecesOf(
  entries: readonly ArchiveEntry[],
  pieceByteLength: number,
): Generator<CheckedPiece, void, void> {
  const limits: MergeLimits<StoredRange> = {
    maxByteLength: pieceByteLength,
    maxGap: GAP_BYTE_LENGTH,
    maxParts: MAX_PARTS,
    // Threads take the parts of a piece in the order of their bytes.
    joins: (piece, { position }, begin) => position + begin >= piece.position + piece.byteLength,
  };
  for (let at = 0; at < entries.length; ) {
    const from = at;
    while (entries[at]?.method === 'stored') at++;
    yield* merge(entries.slice(from, at).map(storedRange), limits);
    const deflated = entries[at++];
    if (deflated !== undefined) yield deflated;
  }
}

function storedRange(entry: ArchiveEntry): StoredRange {
  return { position: entry.begin, byteLength: entry.end - entry.begin, entry };
}
