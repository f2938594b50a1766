/** Positioned reads into ordinary buffers, for files that cannot or should not be mapped. */

import type { BigIntStats } from 'node:fs';
import { FileClosedError } from '../../errors/errors.js';
import { allocate } from '../../errors/out-of-memory.js';
import { emptyBuffers } from '../../tensor/storage/empty-buffers.js';
import type { DescriptorLease } from '../../tensor/storage/storage.js';
import { runSync, type Work } from '../../work/work.js';
import { closeQuietly, statsOf } from '../io/file-calls.js';
import {
  type OpenedFile,
  openAgain,
  type ReadBytes,
  readBytesOf,
  readFully,
} from '../io/opened-file.js';
import {
  addReclaimable,
  type FileIdentity,
  isSameFile,
  type ReclaimableDescriptor,
  reclaimDescriptor,
  removeReclaimable,
} from '../io/reclaimable-descriptors.js';
import { FileBackedStorage, type FileState } from './file-backed.js';

function closeDescriptor(descriptor: ReclaimableDescriptor): void {
  removeReclaimable(descriptor);
  if (descriptor.fd !== -1) closeQuietly(descriptor.fd);
}

// Closes the descriptor of a storage that is collected before it has ended: its file was dropped without
// close(), or was closed, and its last tensor dropped. The held value does not lead to the storage, which
// would never be collected.
const descriptors = new FinalizationRegistry<ReclaimableDescriptor>(closeDescriptor);

/** Owns the descriptor, unless that is borrowed; every buffer is a copy, independent of the file. */
export class ReadStorage extends FileBackedStorage {
  readonly kind = 'read';
  readonly zeroCopy = false;
  protected readonly read: ReadBytes = (target, position) => this.#readOnce(target, position);
  readonly #descriptor: ReclaimableDescriptor;
  // Keeps a FileHandle from being collected, which would close its descriptor.
  readonly #borrowed: OpenedFile['borrowed'];
  #time: bigint;
  #seenTime: bigint;

  /** Takes ownership of the descriptor, unless it is borrowed; `start` is all bytes before the tensor data. */
  constructor(file: OpenedFile, start: Uint8Array) {
    super(file, start);
    this.#descriptor = { fd: file.fd, path: file.path, identity: undefined, users: 0 };
    this.#time = file.mtimeNs;
    this.#seenTime = file.mtimeNs;
    this.#borrowed = file.borrowed;
    if (file.borrowed === undefined) descriptors.register(this, this.#descriptor, this);
  }

  /** Every buffer is a new one and begins at an aligned address. */
  addressOf(_position: number): number {
    return 0;
  }

  readInto(target: Uint8Array, position: number): void {
    // Another file may have got the descriptor's number.
    if (this.ended) throw new FileClosedError({ path: this.path });
    runSync(readFully(this.read, target, position, this.path));
  }

  get canLease(): boolean {
    return !this.ended;
  }

  /**
   * The storage's own descriptor. It is closed when all leases are released if the file has ended, and after it was
   * reclaimed from an open file, which would keep it from others.
   */
  acquireDescriptor(): DescriptorLease {
    if (this.ended) throw new FileClosedError({ path: this.path });
    return this.#use();
  }

  #use(): DescriptorLease {
    const descriptor = this.#descriptor;
    const fd = this.#openDescriptor();
    descriptor.users++;
    const release = (): void => {
      descriptor.users--;
      if (this.ended) this.#closeUnused();
      else if (!this.closed && descriptor.identity !== undefined && descriptor.users === 0) {
        closeQuietly(fd);
        descriptor.fd = -1;
      }
    };
    return { fd, release };
  }

  *#readOnce(target: Uint8Array, position: number): Work<number> {
    const { fd, release } = this.#use();
    try {
      return yield* readBytesOf({ fd, path: this.path })(target, position);
    } finally {
      release();
    }
  }

  reclaimDescriptor(): boolean {
    return this.#borrowed === undefined && reclaimDescriptor(this.#descriptor);
  }

  /** Null: the bytes are always copied, whether the file's pages are in memory or not. */
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
    const stats = this.#stats();
    const { size, mtimeNs } = stats;
    // The caller has closed the descriptor, and its number was given away.
    if (this.#borrowed !== undefined && !isSameFile(stats, this.#borrowed)) return 'replaced';
    this.#seenTime = mtimeNs;
    if (size !== BigInt(this.byteLength)) return { byteLength: Number(size) };
    return mtimeNs === this.#time ? 'same' : 'touched';
  }

  #stats(): BigIntStats {
    const { fd, release } = this.#use();
    try {
      return statsOf({ fd, path: this.path });
    } finally {
      release();
    }
  }

  protected rememberTime(): void {
    this.#time = this.#seenTime;
  }

  /** Readers need the descriptor, too, so it is reclaimed only when the process runs out of others. */
  protected releaseFile(): void {
    if (this.#borrowed === undefined) addReclaimable(this.#descriptor);
  }

  protected release(detached: readonly ArrayBuffer[] | undefined): void {
    this.#closeUnused();
    // The clone gets the memory, and is garbage at once.
    emptyBuffers(detached ?? [], (buffer) => structuredClone(buffer, { transfer: [buffer] }));
  }

  #closeUnused(): void {
    if (this.#borrowed !== undefined || this.#descriptor.users > 0) return;
    descriptors.unregister(this);
    closeDescriptor(this.#descriptor);
  }

  /** Returns the descriptor; reopens it by the path after it was reclaimed. */
  #openDescriptor(): number {
    const descriptor = this.#descriptor;
    if (descriptor.fd !== -1) return descriptor.fd;
    const { path, identity } = descriptor;
    descriptor.fd = runSync(openAgain(path, this.path, identity as FileIdentity));
    return descriptor.fd;
  }
}
