/** The bytes behind a tensor and its contiguous slices: a range of a storage, resolved on first use. */

import { SafetensorsError } from '../errors/errors.js';
import {
  type BufferRange,
  isLending,
  type LendingStorage,
  type Storage,
} from '../storage/storage.js';

/** Throws when the runtime has no buffer of that many bytes, for the tensor of that name. */
export function requireBuffer(storage: Storage, tensor: string, byteLength: number): void {
  const limit = storage.maxBufferByteLength;
  if (byteLength <= limit) return;
  throw new SafetensorsError(
    'SAFETENSORS_TENSOR_TOO_LARGE',
    `${byteLength} bytes do not fit into one buffer of this runtime, which holds at most ${limit}; ` +
      'use chunks() or slices',
    { path: storage.path, tensor },
  );
}

/** The bytes [begin, end) of a storage that belong to one tensor. */
export class StorageRange {
  readonly #storage: Storage;
  readonly #tensor: string;
  readonly #begin: number;
  readonly #end: number;
  readonly #whole: StorageRange;
  #range: BufferRange | undefined;
  /** Of the whole: over a mapping, memory of a part is memory of all of it. */
  #isHandedOut = false;

  /**
   * The storage keeps the buffer of a tensor, which is the same on every call, and of no part.
   * `whole` is what a part is of.
   */
  constructor(storage: Storage, tensor: string, begin: number, end: number, whole?: StorageRange) {
    this.#storage = storage;
    this.#tensor = tensor;
    this.#begin = begin;
    this.#end = end;
    this.#whole = whole === undefined ? this : whole.#whole;
  }

  /** The file, as named in messages. */
  get path(): string | undefined {
    return this.#storage.path;
  }

  /** Distance of the first byte from an aligned address, in bytes. */
  get address(): number {
    return this.#storage.addressOf(this.#begin);
  }

  /** Whether slices should share this source's buffer: it fits into one, and is there or free. */
  get isShareable(): boolean {
    if (this.#end - this.#begin > this.#storage.maxBufferByteLength) return false;
    return this.#storage.zeroCopy || this.#resolved() !== undefined;
  }

  /** Position of the first byte in the file. */
  get position(): number {
    return this.#begin;
  }

  /** Length in bytes. */
  get byteLength(): number {
    return this.#end - this.#begin;
  }

  /** Whether `range` has been resolved, so that it reads nothing any more. */
  get isResolved(): boolean {
    return this.#resolved() !== undefined;
  }

  /** Whether no byte can be had any more: the file was closed before there was a buffer. */
  get isGone(): boolean {
    return this.#storage.closed && !this.isResolved;
  }

  /**
   * The storage of a file that still has exactly these bytes: nobody has had memory in which they
   * could be changed. Windows of a storage that copies are nobody's concern. Undefined otherwise.
   */
  get untouchedFile(): LendingStorage | undefined {
    const storage = this.#storage;
    const isTouched = storage.zeroCopy ? this.#whole.#isHandedOut : this.isResolved;
    return isTouched || !isLending(storage) ? undefined : storage;
  }

  /** The storage of a file whose mapping the bytes are, so that its changes show in them. */
  get mappedFile(): LendingStorage | undefined {
    const storage = this.#storage;
    return storage.kind === 'mmap' && isLending(storage) ? storage : undefined;
  }

  /**
   * Whose memory the bytes are: the whole tensor's, which its parts are views of; the source's own
   * once a storage that copies has read it for itself.
   */
  get owner(): StorageRange {
    return this.#storage.zeroCopy || !this.isResolved ? this.#whole : this;
  }

  /** Takes a buffer into which the source's bytes were read; not needed when there is one by now. */
  adopt(buffer: ArrayBuffer): void {
    if (!this.isResolved) this.#range = this.#storage.bytes(this.#begin, this.#end, buffer);
  }

  /** Where the bytes are; the same place on every call until its buffer is detached. */
  range(): BufferRange {
    this.#whole.#isHandedOut = true;
    const resolved = this.#resolved();
    if (resolved !== undefined) return resolved;
    const byteLength = this.#end - this.#begin;
    this.requireBufferOf(byteLength);
    this.#range = this.#make(byteLength);
    return this.#range;
  }

  /**
   * The bytes [begin, end) of the source for passing use. Over a mapping in a buffer of their own:
   * a view posted to a worker clones all of its buffer.
   */
  window(begin: number, end: number): Uint8Array<ArrayBuffer> {
    this.#whole.#isHandedOut = true;
    const storage = this.#storage;
    const resolved = storage.zeroCopy && !storage.closed ? undefined : this.#resolved();
    if (resolved === undefined) return storage.window(this.#begin + begin, this.#begin + end);
    const { buffer, byteOffset } = resolved;
    return new Uint8Array(buffer, byteOffset + begin, end - begin);
  }

  /**
   * The bytes [begin, end), at least one, for work on other threads: memory that nobody else can
   * take away while a thread reads it. Undefined where there is none without a copy: after `parse`,
   * in what `storage: 'read'` has read before, and when the file is closed.
   */
  hold(begin: number, end: number): Uint8Array<ArrayBuffer> | undefined {
    return this.isHoldable ? this.#storage.hold(this.#begin + begin, this.#begin + end) : undefined;
  }

  /** Whether `hold` has something to give. */
  get isHoldable(): boolean {
    const { kind, closed } = this.#storage;
    return kind !== 'memory' && !(this.#resolved() !== undefined && (closed || kind === 'read'));
  }

  /**
   * Throws when the file was closed or changed since, so that a copy of the bytes may be wrong. Once
   * it is closed, a buffer that was handed out before is all there is, and is not checked.
   */
  verify(): void {
    if (!this.#storage.closed || this.#resolved() === undefined) this.#storage.verify();
  }

  /** A source for `byteLength` bytes of this one, with a buffer of its own. */
  part(begin: number, byteLength: number): StorageRange {
    const start = this.#begin + begin;
    return new StorageRange(this.#storage, this.#tensor, start, start + byteLength, this);
  }

  /**
   * Throws when no buffer of that many bytes can be made. Asked before the engine is: Node 20 runs
   * the finalizer of an external buffer that it then refuses.
   */
  requireBufferOf(byteLength: number): void {
    requireBuffer(this.#storage, this.#tensor, byteLength);
  }

  /** Longest buffer this runtime can make, in bytes. */
  get maxBufferByteLength(): number {
    return this.#storage.maxBufferByteLength;
  }

  #make(byteLength: number): BufferRange {
    if (byteLength === 0) {
      this.#storage.verify();
      // Never an external buffer of no bytes: engines take it for a detached one.
      return { buffer: new ArrayBuffer(0), byteOffset: 0 };
    }
    return this.#whole !== this
      ? this.#storage.window(this.#begin, this.#end)
      : this.#storage.bytes(this.#begin, this.#end);
  }

  #resolved(): BufferRange | undefined {
    const range = this.#range;
    // Detached by close({ detach: true }) or transferred by its owner.
    return range !== undefined && range.buffer.byteLength === 0 && this.#end > this.#begin
      ? undefined
      : range;
  }
}
