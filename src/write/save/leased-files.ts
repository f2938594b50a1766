/**
 * The source files of tensors to be written. A file must not change until the last write, or the result would be half
 * old, half new.
 */

import type { BigIntStats } from 'node:fs';
import { resolve } from 'node:path';
import { FileChangedError } from '../../errors/errors.js';
import type { AcquirableFile } from '../../platform/io/acquirable-file.js';
import { closeQuietly, statsOf } from '../../platform/io/file-calls.js';
import { openAgain, requireSameStats } from '../../platform/io/opened-file.js';
import {
  addHolder,
  type DescriptorHolder,
  maxRetainedDescriptors,
  statsOfFile,
} from '../../platform/io/reclaimable-descriptors.js';
import { hasCode } from '../../platform/io/system-errors.js';
import type { DescriptorLease, LeasableStorage } from '../../tensor/storage/storage.js';
import { forEachYielding } from '../../work/items.js';
import { runSync, type Work } from '../../work/work.js';
import type {
  ComputedPayload,
  FilePayload,
  MemoryPayload,
  Payload,
  StreamPayload,
} from '../input/tensor-input.js';

/** A file that is read until `end`, even if its storage is closed meanwhile. */
class LeasedFile implements AcquirableFile {
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
  constructor(storage: LeasableStorage, onOpen: () => void) {
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

/**
 * The source files of some tensors. Ends with `end`. Files may outnumber descriptors: those that no read uses are
 * reclaimed when the process runs out of them.
 */
export class LeasedFiles implements DescriptorHolder {
  readonly #files = new Map<LeasableStorage, LeasedFile>();
  /** Files whose descriptors were not reclaimed. */
  readonly #retained = new Set<LeasedFile>();
  readonly #memory: (MemoryPayload | ComputedPayload)[] = [];
  #removeHolder: (() => void) | undefined;

  /**
   * Acquires the descriptors, and records identity, size and modification time of the files.
   *
   * @throws FileChangedError for a file that changed since it was opened
   */
  constructor(tensors: Iterable<{ readonly payload: Payload }>) {
    try {
      for (const { payload } of tensors) this.add(payload);
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** Adds a tensor. Throws as the constructor, for a file that was not acquired before. */
  add(payload: Payload): void {
    if (payload.kind === 'stream') return;
    if (payload.kind !== 'file') this.#memory.push(payload);
    this.acquire(payload);
  }

  /** Acquires the file of a tensor, if any, which is added later. */
  acquire(payload: Exclude<Payload, StreamPayload>): void {
    const { storage } = payload;
    // A closed mapped file has only its memory left.
    const isNeeded = payload.kind === 'file' || storage?.canLease === true;
    if (storage !== undefined && isNeeded) this.#add(storage);
  }

  /** Returns the file with a tensor's bytes. */
  fileOf({ storage }: FilePayload): AcquirableFile {
    return this.#files.get(storage) as LeasedFile;
  }

  /**
   * Checks the files again; call it after the last write.
   *
   * @throws FileChangedError when identity, size or modification time of a file changed
   * @throws FileClosedError, InvalidTensorError when memory was detached meanwhile
   */
  verify(): void {
    runSync(this.verifyYielding());
  }

  /** As `verify`. */
  *verifyYielding(): Work<void> {
    yield* forEachYielding(this.#files.values(), (file) => file.requireSame());
    yield* forEachYielding(this.#memory, (payload) => payload.verify());
  }

  /**
   * Explains an error of writing. `EFAULT` means memory that cannot be read: a mapping of a truncated file. Returns
   * any other error as it is.
   */
  explain(error: unknown): unknown {
    if (!hasCode(error, ['EFAULT'])) return error;
    try {
      this.verify();
    } catch (reason) {
      return reason;
    }
    const paths = new Set(this.#memory.flatMap(({ storage }) => storage?.path ?? []));
    const [path] = paths.size === 1 ? paths : [];
    const message = 'the file was truncated while it was mapped; open it again';
    return new FileChangedError(message, { path, cause: error });
  }

  reclaimDescriptors(): number {
    let count = 0;
    for (const file of this.#retained) {
      if (!file.reclaim()) continue;
      this.#retained.delete(file);
      count++;
    }
    return count;
  }

  /** Closes the descriptors. Call it when no read is under way. */
  end(): void {
    this.#removeHolder?.();
    for (const file of this.#retained) file.end();
    this.#retained.clear();
    this.#files.clear();
  }

  #add(storage: LeasableStorage): void {
    if (this.#files.has(storage)) return;
    storage.verify();
    this.#removeHolder ??= addHolder(this);
    const file = new LeasedFile(storage, () => this.#retain(file));
    this.#files.set(storage, file);
    this.#retain(file);
  }

  #retain(file: LeasedFile): void {
    this.#retained.add(file);
    if (this.#retained.size > maxRetainedDescriptors()) this.reclaimDescriptors();
  }
}

/** Files that are leased in the turn of a call, before its arguments are checked. */
export class EarlyLease {
  readonly #files = new LeasedFiles([]);
  #failure: { readonly error: unknown } | undefined;

  /** Acquires the files of the tensors; a failure is thrown by `files`. */
  constructor(tensors: Iterable<{ readonly payload: MemoryPayload | FilePayload }>) {
    try {
      for (const { payload } of tensors) this.#files.acquire(payload);
    } catch (error) {
      this.#failure = { error };
    }
  }

  /** Adds a tensor that passed the checks. */
  add(payload: Payload): void {
    if (this.#failure === undefined) this.#files.add(payload);
  }

  /** Returns the files. Throws as the constructor of {@link LeasedFiles}. */
  files(): LeasedFiles {
    if (this.#failure !== undefined) throw this.#failure.error;
    return this.#files;
  }

  /** Closes the descriptors. */
  end(): void {
    this.#files.end();
  }
}
