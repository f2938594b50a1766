/** Deflated entries of an archive as storages: inflated when their bytes are asked for. */

import {
  type AsyncFill,
  type Fill,
  MadeStorage,
  type StorageBytes,
} from '../tensor/storage/made.js';
import type { Storage } from '../tensor/storage/storage.js';
import { inflateInOrder } from './inflate-in-order.js';
import { storageReader } from './open-file.js';
import { readEntry } from './read-entry.js';
import type { ArchiveEntry } from './zip/archive.js';
import type { ArchiveLimits } from './zip/limits.js';

/** A deflated entry. Its windows are made of all its bytes, which are inflated first. */
export class InflatedStorage extends MadeStorage {
  /** The same bytes from `begin` on, for pieces that are asked for in their order: never all in memory. */
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
 * The entries of one archive. Keeps the bytes of the entry that was inflated last, and of no other, until one of the
 * storages is closed: all are, together.
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

  /** The bytes of an entry: of the file itself when it is stored, else made of it when asked for. */
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
      // The old one first: two of them may not fit into memory.
      this.#last = undefined;
      const context = { path: this.#archive.path };
      const bytes = readEntry(storageReader(this.#archive), entry, context, this.#limits);
      this.#last = { entry, bytes };
    }
    return this.#last.bytes;
  }
}
