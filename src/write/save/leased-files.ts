/**
 * The source files of tensors to be written. A file must not change until the last write, or the result would be half
 * old, half new.
 */

import { FileChangedError } from '../../errors/errors.js';
import type { AcquirableFile } from '../../platform/io/acquirable-file.js';
import {
  addHolder,
  type DescriptorHolder,
  maxRetainedDescriptors,
} from '../../platform/io/reclaimable-descriptors.js';
import { hasCode } from '../../platform/io/system-errors.js';
import type { LendingStorage } from '../../tensor/storage/storage.js';
import type { FilePayload, MadePayload, MemoryPayload, Payload } from '../input/tensor-input.js';
import { LeasedFile } from './leased-file.js';

/**
 * The source files of some tensors. Ends with `end`. Files may outnumber descriptors: those that no read uses are
 * reclaimed when the process runs out of them.
 */
export class LeasedFiles implements DescriptorHolder {
  readonly #files = new Map<LendingStorage, LeasedFile>();
  /** Files whose descriptors were not reclaimed. */
  readonly #retained = new Set<LeasedFile>();
  readonly #memory: (MemoryPayload | MadePayload)[] = [];
  #removeHolder: (() => void) | undefined;

  /**
   * Acquires the descriptors, and records identity, size and modification time of the files.
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
        if (storage !== undefined && isNeeded) this.#add(storage);
      }
    } catch (error) {
      this.end();
      throw error;
    }
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
    for (const file of this.#files.values()) file.requireSame();
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

  #add(storage: LendingStorage): void {
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
