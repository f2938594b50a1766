/** The bytes behind a tensor and its contiguous slices: a range of a storage, resolved on first use. */

import { SafetensorsError } from './errors.js';
import type { BufferRange, Storage } from './storage.js';

/** The bytes [begin, end) of a storage that belong to one tensor. */
export class TensorSource {
  readonly #storage: Storage;
  readonly #tensor: string;
  readonly #begin: number;
  readonly #end: number;
  #range: BufferRange | undefined;

  constructor(storage: Storage, tensor: string, begin: number, end: number) {
    this.#storage = storage;
    this.#tensor = tensor;
    this.#begin = begin;
    this.#end = end;
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

  /** Where the bytes are; the same place on every call until its buffer is detached. */
  range(): BufferRange {
    const resolved = this.#resolved();
    if (resolved !== undefined) return resolved;
    const byteLength = this.#end - this.#begin;
    this.requireBufferOf(byteLength);
    // Never an external buffer of no bytes: engines take it for a detached one.
    this.#range =
      byteLength === 0
        ? { buffer: new ArrayBuffer(0), byteOffset: 0 }
        : this.#storage.bytes(this.#begin, this.#end);
    return this.#range;
  }

  /**
   * The bytes [begin, end) of the source for passing use. Over a mapping in a buffer of their own:
   * a view posted to a worker clones all of its buffer.
   */
  window(begin: number, end: number): Uint8Array<ArrayBuffer> {
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
   * Throws when the file was closed or changed since. Over memory, and once a closed file's tensor
   * has only the buffer that was handed out, there is nothing to check.
   */
  verify(): void {
    if (this.isHoldable) this.#storage.verify();
  }

  /** A source for `byteLength` bytes of this one, with a buffer of its own. */
  part(begin: number, byteLength: number): TensorSource {
    const start = this.#begin + begin;
    return new TensorSource(this.#storage, this.#tensor, start, start + byteLength);
  }

  /**
   * Throws when no buffer of that many bytes can be made. Asked before the engine is: Node 20 runs
   * the finalizer of an external buffer that it then refuses.
   */
  requireBufferOf(byteLength: number): void {
    const limit = this.#storage.maxBufferByteLength;
    if (byteLength <= limit) return;
    throw new SafetensorsError(
      'SAFETENSORS_TENSOR_TOO_LARGE',
      `${byteLength} bytes do not fit into one buffer of this runtime, which holds at most ${limit}; ` +
        'use chunks() or slices',
      { path: this.#storage.path, tensor: this.#tensor },
    );
  }

  #resolved(): BufferRange | undefined {
    const range = this.#range;
    // Detached by close({ detach: true }) or transferred by its owner.
    return range !== undefined && range.buffer.byteLength === 0 && this.#end > this.#begin
      ? undefined
      : range;
  }
}
