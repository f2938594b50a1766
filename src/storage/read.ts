/** Positioned reads into ordinary buffers, for files that cannot or should not be mapped. */

import { closeSync, fstatSync } from 'node:fs';
import { FileClosedError } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';
import { type OpenedFile, type ReadBytes, readerOf, readFully } from '../io/opened-file.js';
import { runSync } from '../io/steps.js';
import { emptyBuffers } from './empty-buffers.js';
import { FileBackedStorage, type FileState } from './file-backed.js';
import type { LentDescriptor } from './storage.js';

// Closes the descriptor of a handle that is dropped without close(). The held value is the number
// alone: the storage itself would never be collected.
const descriptors = new FinalizationRegistry<number>((fd) => closeSync(fd));

/** Owns the descriptor; every buffer is a copy, independent of the file. */
export class ReadStorage extends FileBackedStorage {
  readonly kind = 'read';
  readonly zeroCopy = false;
  protected readonly read: ReadBytes;
  readonly #fd: number;
  #time: bigint;
  #seenTime: bigint;
  #lent = 0;

  /** Takes ownership of the descriptor; `start` is all bytes before the tensor data. */
  constructor(file: OpenedFile, start: Uint8Array) {
    super(file, start);
    this.read = readerOf(file);
    this.#fd = file.fd;
    this.#time = file.mtimeNs;
    this.#seenTime = file.mtimeNs;
    descriptors.register(this, file.fd, this);
  }

  /** Every buffer is a new one and begins at an aligned address. */
  addressOf(_position: number): number {
    return 0;
  }

  readInto(target: Uint8Array, position: number): void {
    // Another file may have the descriptor's number by now.
    if (this.closed) throw new FileClosedError({ path: this.path });
    runSync(readFully(this.read, target, position, this.path));
  }

  /** The storage's own descriptor, which is closed when all that were lent are given back. */
  lend(): LentDescriptor {
    this.#lent++;
    const giveBack = (): void => {
      this.#lent--;
      if (this.closed) this.#closeUnused();
    };
    return { fd: this.#fd, giveBack };
  }

  /** Unknown: the bytes are copied in any case, whether the file's pages are in memory or not. */
  residentBytes(_begin: number, _end: number): null {
    return null;
  }

  protected makeBuffer(begin: number, end: number): ArrayBuffer {
    const bytes = allocate(Uint8Array, end - begin, { path: this.path });
    this.readInto(bytes, begin);
    return bytes.buffer;
  }

  protected isSuspicious(): boolean {
    return false;
  }

  protected inspect(): FileState {
    const { size, mtimeNs } = fstatSync(this.#fd, { bigint: true });
    this.#seenTime = mtimeNs;
    if (size !== BigInt(this.byteLength)) return { byteLength: Number(size) };
    return mtimeNs === this.#time ? 'same' : 'touched';
  }

  protected rememberTime(): void {
    this.#time = this.#seenTime;
  }

  protected release(detached: readonly ArrayBuffer[] | undefined): void {
    this.#closeUnused();
    // The clone gets the memory, and is garbage at once.
    emptyBuffers(detached ?? [], (buffer) => structuredClone(buffer, { transfer: [buffer] }));
  }

  #closeUnused(): void {
    if (this.#lent > 0) return;
    descriptors.unregister(this);
    closeSync(this.#fd);
  }
}
