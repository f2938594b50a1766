/**
 * The files that tensors to be written come from. Each lends its descriptor once, for as long as it
 * takes, and must be the same afterwards as before: what is written must not be half old, half new.
 */

import { FileChangedError } from '../errors/errors.js';
import { changeCheck, type ReadFile } from '../io/opened-file.js';
import { hasCode } from '../io/system-errors.js';
import type { LendingStorage, LentDescriptor } from '../storage/storage.js';
import type { FilePayload, MemoryPayload, StreamPayload } from './tensor-input.js';

/** A source with what is needed to read it and to know it again. */
interface LentFile extends ReadFile {
  readonly lent: LentDescriptor;
  readonly requireSame: () => void;
}

/** Sources of some tensors; ends with `end`. */
export class SourceFiles {
  readonly #files = new Map<LendingStorage, LentFile>();
  readonly #memory: MemoryPayload[] = [];

  /**
   * Lends the descriptors, and remembers what the files are like.
   *
   * @throws FileChangedError for one that changed since it was opened
   */
  constructor(
    tensors: Iterable<{ readonly payload: MemoryPayload | FilePayload | StreamPayload }>,
  ) {
    try {
      for (const { payload } of tensors) {
        if (payload.kind === 'stream') continue;
        if (payload.kind === 'memory') this.#memory.push(payload);
        const { storage } = payload;
        // Of a mapping whose file was closed there is only the memory.
        if (storage !== undefined && !storage.closed) this.#lend(storage);
      }
    } catch (error) {
      this.end();
      throw error;
    }
  }

  /** The open file of a tensor whose bytes are there. */
  fileOf({ storage }: FilePayload): ReadFile {
    return this.#files.get(storage) as LentFile;
  }

  /**
   * To be called when the last byte was written.
   *
   * @throws FileChangedError when size or modification time of a file are not what they were
   * @throws FileClosedError, InvalidTensorError when memory was taken away meanwhile
   */
  verify(): void {
    for (const { requireSame } of this.#files.values()) requireSame();
    for (const payload of this.#memory) payload.verify();
  }

  /**
   * What an error of writing means: memory that cannot be read is a mapping whose file has become
   * shorter. Anything else is given back as it is.
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

  /** Gives the descriptors back; to be called when nothing is under way. */
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
