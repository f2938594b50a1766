/** A source file of tensors to be written, whose descriptor can be reclaimed between two reads. */

import type { BigIntStats } from 'node:fs';
import { resolve } from 'node:path';
import type { AcquirableFile } from '../../platform/io/acquirable-file.js';
import { closeQuietly, statsOf } from '../../platform/io/file-calls.js';
import { openAgain, requireSameStats } from '../../platform/io/opened-file.js';
import { statsOfFile } from '../../platform/io/reclaimable-descriptors.js';
import type { DescriptorLease, LendingStorage } from '../../tensor/storage/storage.js';
import { runSync } from '../../work/work.js';

/** A file that is read until `end`, even if its storage is closed meanwhile. */
export class LeasedFile implements AcquirableFile {
  readonly path: string | undefined;
  readonly #onOpen: () => void;
  readonly #stats: BigIntStats;
  /** Undefined after it was reclaimed. */
  #lease: DescriptorLease | undefined;
  #users = 0;
  /** The absolute path of the file, once its descriptor was reclaimed. */
  #realPath = '';

  /**
   * Acquires the storage's descriptor, and records the current identity of its file. `onOpen` is called when a
   * reclaimed file is opened again.
   */
  constructor(storage: LendingStorage, onOpen: () => void) {
    this.path = storage.path;
    this.#onOpen = onOpen;
    const lease = storage.acquireDescriptor();
    this.#lease = lease;
    try {
      this.#stats = statsOf({ fd: lease.fd, path: this.path });
    } catch (error) {
      lease.release();
      throw error;
    }
  }

  acquire(): number {
    this.#users++;
    if (this.#lease !== undefined) return this.#lease.fd;
    try {
      const fd = runSync(openAgain(this.#realPath, this.path ?? this.#realPath, this.#stats));
      this.#lease = { fd, release: () => closeQuietly(fd) };
    } catch (error) {
      this.#users--;
      throw error;
    }
    this.#onOpen();
    return this.#lease.fd;
  }

  release(): void {
    this.#users--;
  }

  /**
   * Closes the descriptor, unless a read uses it, or the path leads to another file. Returns whether it did; a file
   * that is read may share it with the open storage, which can then close it, too.
   */
  reclaim(): boolean {
    if (this.#lease === undefined || this.#users > 0 || this.path === undefined) return false;
    const path = this.#realPath || resolve(this.path);
    if (statsOfFile(path, this.#stats) === undefined) return false;
    this.#realPath = path;
    this.end();
    return true;
  }

  /** Throws FileChangedError when the file has another size or modification time than at first, or was replaced. */
  requireSame(): void {
    const { path } = this;
    const now =
      this.#lease === undefined
        ? statsOfFile(this.#realPath, this.#stats)
        : statsOf({ fd: this.#lease.fd, path });
    requireSameStats(path, this.#stats, now);
  }

  /** Closes the descriptor. */
  end(): void {
    this.#lease?.release();
    this.#lease = undefined;
  }
}
