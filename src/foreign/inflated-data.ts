/** Deflated entries of an archive as storages: inflated whole for a window, or piece by piece in order. */

import { Readable } from 'node:stream';
import { crc32, createInflateRaw } from 'node:zlib';
import { storageFill } from '../platform/storage/storage-fill.js';
import {
  type AsyncFill,
  ComputedStorage,
  type Fill,
  type StorageBytes,
} from '../tensor/storage/computed.js';
import type { Storage } from '../tensor/storage/storage.js';
import { cut } from '../work/byte-ranges.js';
import { storageReader } from './open-file.js';
import { brokenEntry, readEntry, requireCrc32, requireInflatable } from './read-entry.js';
import type { ArchiveEntry } from './zip/archive.js';
import type { ArchiveLimits } from './zip/limits.js';

/** Deflated bytes to read at once, and inflated bytes of a chunk. */
const CHUNK_BYTE_LENGTH = 2 ** 18;

/** A deflated entry. Windows come from all its bytes, which are inflated first. */
export class InflatedStorage extends ComputedStorage {
  /** Returns the bytes from `begin` on for pieces in order, without all of them in memory. */
  readonly inOrder: (begin: number) => AsyncFill;
  readonly #forget: () => void;

  constructor(
    byteLength: number,
    source: StorageBytes,
    fill: Fill,
    inOrder: (begin: number) => AsyncFill,
    forget: () => void,
  ) {
    super(byteLength, source, fill);
    this.inOrder = inOrder;
    this.#forget = forget;
  }

  override close(detach: boolean): void {
    super.close(detach);
    this.#forget();
  }
}

/**
 * The entries of one archive. Keeps only the bytes of the last inflated entry, until the storages are closed, which
 * happens to all together.
 */
export class InflatedEntries {
  readonly #archive: Storage;
  readonly #limits: ArchiveLimits;
  #last: { readonly entry: ArchiveEntry; readonly bytes: Uint8Array } | undefined;

  /** `archive` is the storage of the whole file. */
  constructor(archive: Storage, limits: ArchiveLimits) {
    this.#archive = archive;
    this.#limits = limits;
  }

  /** Returns the bytes of an entry: of the file itself when stored, else inflated on demand. */
  dataOf(entry: ArchiveEntry): StorageBytes {
    const held = {
      storage: this.#archive,
      begin: entry.begin,
      byteLength: entry.end - entry.begin,
    };
    if (entry.method === 'stored') return held;
    const { byteLength } = entry;
    const fill: Fill = (target, position) =>
      target.set(this.#inflate(entry).subarray(position, position + target.length));
    const inOrder = (begin: number): AsyncFill =>
      inflateInOrder(this.#archive, entry, this.#limits, begin);
    const forget = (): void => {
      this.#last = undefined;
    };
    const storage = new InflatedStorage(byteLength, held, fill, inOrder, forget);
    return { storage, begin: 0, byteLength };
  }

  #inflate(entry: ArchiveEntry): Uint8Array {
    if (this.#last?.entry !== entry) {
      // Free the old one first: two of them may not fit into memory.
      this.#last = undefined;
      const context = { path: this.#archive.path };
      const bytes = readEntry(storageReader(this.#archive), entry, context, this.#limits);
      this.#last = { entry, bytes };
    }
    return this.#last.bytes;
  }
}

/**
 * Fills pieces with the inflated bytes of an entry, from `begin` on, which is near its start. The pieces must be
 * requested in order, each once. Inflates on the thread pool; checks length and CRC-32 with the last piece.
 *
 * @throws As `readEntry`
 */
function inflateInOrder(
  archive: Storage,
  entry: ArchiveEntry,
  limits: ArchiveLimits,
  begin: number,
): AsyncFill {
  const chunks = inflatedChunks(archive, entry, limits);
  let chunk: Uint8Array = new Uint8Array();
  const next = async (): Promise<boolean> => {
    const { value, done } = await chunks.next();
    chunk = done === true ? new Uint8Array() : value;
    return done !== true;
  };
  const take = async (target: Uint8Array): Promise<void> => {
    for (let done = 0; done < target.length; ) {
      if (chunk.length === 0 && !(await next())) return;
      const part = chunk.subarray(0, target.length - done);
      target.set(part, done);
      done += part.length;
      chunk = chunk.subarray(part.length);
    }
  };
  let before: Promise<unknown> | undefined;
  return (target, position) => {
    before ??= take(new Uint8Array(begin));
    const isLast = begin + position + target.length === entry.byteLength;
    const piece = before.then(async () => {
      await take(target);
      // The end of the chunks checks them.
      if (isLast) await next();
    });
    before = piece;
    return piece;
  };
}

async function* inflatedChunks(
  archive: Storage,
  entry: ArchiveEntry,
  limits: ArchiveLimits,
): AsyncGenerator<Uint8Array, void, void> {
  const context = { path: archive.path };
  requireInflatable(entry, limits, context);
  const inflater = createInflateRaw({ chunkSize: CHUNK_BYTE_LENGTH });
  const stored = Readable.from(storedChunks(archive, entry));
  stored.on('error', (error) => inflater.destroy(error));
  let byteLength = 0;
  let found = 0;
  try {
    for await (const chunk of stored.pipe(inflater)) {
      byteLength += chunk.length;
      if (byteLength > entry.byteLength) throw brokenEntry(entry, 'more', context);
      found = crc32(chunk, found);
      yield chunk;
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'Z_DATA_ERROR' && code !== 'Z_BUF_ERROR') throw error;
    throw brokenEntry(entry, 'broken ones', context, error);
  } finally {
    stored.destroy();
  }
  if (byteLength !== entry.byteLength) throw brokenEntry(entry, `${byteLength}`, context);
  const { bytesWritten } = inflater;
  if (bytesWritten !== entry.end - entry.begin) {
    throw brokenEntry(entry, `an end after ${bytesWritten}`, context);
  }
  requireCrc32(entry, found, context);
}

/** Yields new memory each time, because the inflater keeps a chunk until it is used up. */
async function* storedChunks(
  archive: Storage,
  { begin, end }: ArchiveEntry,
): AsyncGenerator<Uint8Array, void, void> {
  const fill = storageFill(archive, 0);
  for (const chunk of cut(begin, end, CHUNK_BYTE_LENGTH)) {
    const bytes = new Uint8Array(chunk.end - chunk.begin);
    await fill(bytes, chunk.begin);
    yield bytes;
  }
}
