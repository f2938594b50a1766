/** Positioned reads into ordinary buffers, where files cannot be mapped or should not be. */

import { closeSync, fstatSync } from 'node:fs';
import { type OpenedFile, type ReadBytes, readerOf, readFully } from '../io/opened-file.js';
import { FileBackedStorage, type FileState } from './file-backed.js';
import type { LentDescriptor } from './storage.js';

// A handle that is dropped without close() must not keep its descriptor. The held value is the
// number alone, so that the registry does not keep the storage alive.
const descriptors = new FinalizationRegistry<number>((fd) => closeSync(fd));

/** Owns the descriptor; every buffer is a copy that lives on its own. */
export class ReadStorage extends FileBackedStorage {
  readonly kind = 'read';
  readonly zeroCopy = false;
  protected readonly read: ReadBytes;
  readonly #fd: number;
  #time: bigint;
  #seenTime: bigint;
  #lent = 0;

  /** Takes the descriptor over. */
  constructor(file: OpenedFile) {
    super(file);
    this.read = readerOf(file);
    this.#fd = file.fd;
    this.#time = fstatSync(file.fd, { bigint: true }).mtimeNs;
    this.#seenTime = this.#time;
    descriptors.register(this, file.fd, this);
  }

  /** Buffers are made for what is asked, so all begin at an aligned address. */
  addressOf(_position: number): number {
    return 0;
  }

  /** The storage's own descriptor, whose closing waits for all that were lent. */
  lend(): LentDescriptor {
    this.#lent++;
    const giveBack = (): void => {
      this.#lent--;
      if (this.closed) this.#closeUnused();
    };
    return { fd: this.#fd, giveBack };
  }

  /** Nobody asks the system about the file's pages here: they are copied in any case. */
  residentBytes(_begin: number, _end: number): null {
    return null;
  }

  protected makeBuffer(begin: number, end: number): ArrayBuffer {
    const buffer = new ArrayBuffer(end - begin);
    readFully(this.read, new Uint8Array(buffer), begin, this.path);
    return buffer;
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
    // Transferring is the only way to empty a buffer on Node 20; the clone is garbage at once.
    // One of no bytes was transferred by its holder already.
    for (const buffer of detached ?? []) {
      if (buffer.byteLength > 0) structuredClone(buffer, { transfer: [buffer] });
    }
  }

  #closeUnused(): void {
    if (this.#lent > 0) return;
    descriptors.unregister(this);
    closeSync(this.#fd);
  }
}
