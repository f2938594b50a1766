/** Deflated entries of an archive as storages: inflated when their bytes are asked for. */

import { MadeStorage, type StorageBytes } from '../storage/made.js';
import type { Storage } from '../storage/storage.js';
import { storageReader } from './open-file.js';
import type { ArchiveEntry } from './zip/archive.js';
import type { ArchiveLimits } from './zip/limits.js';
import { readEntry } from './zip/read-entry.js';

/** The entries of one archive. Keeps the bytes of the entry that was inflated last, and of no other. */
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
    const storage = new MadeStorage(byteLength, held, (target, position) => {
      target.set(this.#inflate(entry).subarray(position, position + target.length));
    });
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
