/**
 * The source files of tensors to be written. Each lends its descriptor once, until the last write. A file must not
 * change meanwhile, or the result would be half old, half new.
 */

import { FileChangedError } from '../../errors/errors.js';
import { changeCheck } from '../../platform/io/opened-file.js';
import type { ReadFile } from '../../platform/io/pool-calls.js';
import { hasCode } from '../../platform/io/system-errors.js';
import type { LendingStorage, LentDescriptor } from '../../tensor/storage/storage.js';
import type { FilePayload, MadePayload, MemoryPayload, Payload } from '../input/tensor-input.js';

/** A source file during the reads. */
interface LentFile extends ReadFile {
  readonly lent: LentDescriptor;
  /** Throws when the file has changed. */
  readonly requireSame: () => void;
}

/** The source files of some tensors. Ends with `end`. */
export class BorrowedFiles {
  readonly #files = new Map<LendingStorage, LentFile>();
  readonly #memory: (MemoryPayload | MadePayload)[] = [];

  /**
   * Borrows the descriptors, and records size and modification time of the files.
   *
   * @throws FileChangedError for a file that changed since it was opened
   */
  constructor(tensors: Iterable<{ readonly payload: Payload }>) {
    try {
      for (const { payload } of tensors) {
        if (payload.kind === 'stream') continue;
        if (payload.kind !== 'file') this.#memory.push(payload);
        const { storage } = payload;
        // A closed mapped file has only its memory left.
        const isNeeded = payload.kind === 'file' || storage?.canLend === true;
        if (storage !== undefined && isNeeded) this.#lend(storage);
      }
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** Returns the open file with a tensor's bytes. */
  fileOf({ storage }: FilePayload): ReadFile {
    return this.#files.get(storage) as LentFile;
  }

  /**
   * Checks the files again; call it after the last write.
   *
   * @throws FileChangedError when size or modification time of a file changed
   * @throws FileClosedError, InvalidTensorError when memory was detached meanwhile
   */
  verify(): void {
    for (const { requireSame } of this.#files.values()) requireSame();
    for (const payload of this.#memory) payload.verify();
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
    const message = 'the file was cut short: the memory of a tensor that is mapped from it is gone';
    return new FileChangedError(message, { path, cause: error });
  }

  /** Gives the descriptors back. Call it when no read is under way. */
  end(): void {
    for (const { lent } of this.#files.values()) lent.giveBack();
    this.#files.clear();
  }

  #lend(storage: LendingStorage): void {
    if (this.#files.has(storage)) return;
    storage.verify();
    const lent = storage.lend();
    const file = { fd: lent.fd, path: storage.path };
    try {
      this.#files.set(storage, { ...file, lent, requireSame: changeCheck(file) });
    } catch (error) {
      lent.giveBack();
      throw error;
    }
  }
}
