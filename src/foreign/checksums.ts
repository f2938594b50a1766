/** Compares the bytes of an archive's entries with the checksums of its directory. */

import { crc32 } from 'node:zlib';
import { FormatError } from '../errors/errors.js';
import { readBytesOf, readFully } from '../platform/io/opened-file.js';
import { storageFill } from '../platform/storage/storage-fill.js';
import type { AsyncFill } from '../tensor/storage/computed.js';
import { type LeasableStorage, verifyOpen } from '../tensor/storage/storage.js';
import { allSettled } from '../work/all-settled.js';
import { CACHED_BYTE_LENGTH, cut } from '../work/byte-ranges.js';
import { Slots } from '../work/slots.js';
import { Transfer, type TransferOptions } from '../work/transfer.js';
import { runAsync } from '../work/work.js';
import { storageReader } from './open-file.js';
import { readEntry, requireCrc32 } from './read-entry.js';
import type { ArchiveEntry } from './zip/archive.js';
import type { ArchiveLimits } from './zip/limits.js';

/** The next pieces are read while one is added up. */
const CHECKED_AT_ONCE = 3;

/** Entries, and the limits for inflating one. */
export interface ArchiveContent {
  readonly entries: readonly ArchiveEntry[];
  readonly limits: ArchiveLimits;
}

/** A part of a stored entry, or a deflated one as a whole. */
interface CheckedPiece {
  readonly entry: ArchiveEntry;
  readonly begin: number;
  readonly end: number;
}

/**
 * Reads all entries with checksums on the thread pool; the event loop turns between pieces of 1 MiB, but never within
 * a deflated entry.
 *
 * @param report receives the error of an entry before the next entry is read; by default it is thrown
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
  for (const entry of entries) {
    if (entry.begin === entry.end) check(entry, () => requireCrc32(entry, 0, { path }));
  }
  const lease = storage.acquireDescriptor();
  const read = readBytesOf({ fd: lease.fd, path });
  const free: Uint8Array[] = [];
  let found = 0;
  // A checksum goes on where it stopped: pieces are added up in their order.
  let before: Promise<unknown> = Promise.resolve();
  try {
    await transfer.run(piecesOf(entries), new Slots(CHECKED_AT_ONCE), ({ entry, begin, end }) => {
      if (entry.method === 'deflated') {
        check(entry, () => readEntry(storageReader(storage), entry, { path }, limits));
        return Promise.resolve(end - begin);
      }
      const buffer = free.pop() ?? new Uint8Array(CACHED_BYTE_LENGTH);
      const bytes = buffer.subarray(0, end - begin);
      const reading = runAsync(readFully(read, bytes, begin, path), undefined);
      // When an earlier piece fails, this one is still being read, so its descriptor must stay open.
      const piece = allSettled([reading, before]).then(() => {
        found = crc32(bytes, begin === entry.begin ? 0 : found);
        if (end === entry.end) check(entry, () => requireCrc32(entry, found, { path }));
        free.push(buffer);
        return end - begin;
      });
      before = piece;
      return piece;
    });
    verifyOpen(storage);
  } finally {
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

function* piecesOf(entries: readonly ArchiveEntry[]): Generator<CheckedPiece, void, void> {
  for (const entry of entries) {
    const length = entry.method === 'stored' ? CACHED_BYTE_LENGTH : Number.MAX_SAFE_INTEGER;
    for (const { begin, end } of cut(entry.begin, entry.end, length)) yield { entry, begin, end };
  }
}
