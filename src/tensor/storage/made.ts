/** Bytes that no file has as they stand: gathered, swapped or inflated when they are asked for, each window for itself. */

import { FileClosedError } from '../../errors/errors.js';
import { allocate } from '../../errors/out-of-memory.js';
import { emptyBuffers } from './empty-buffers.js';
import type { BufferRange, Storage } from './storage.js';

/** Bytes of a storage, from `begin` on. */
export interface StorageBytes {
  readonly storage: Storage;
  readonly begin: number;
  readonly byteLength: number;
}

/** Fills `target` with the bytes from `position` on. */
export type Fill = (target: Uint8Array, position: number) => void;

/** The same, at once or on other threads: then nobody may use `target` before the promise settles. */
export type AsyncFill = (target: Uint8Array, position: number) => void | Promise<void>;

/**
 * Makes bytes of those of another storage, with which it is closed, and which its readers need. Every buffer
 * is a new one.
 */
export class MadeStorage implements Storage {
  readonly kind = 'read';
  readonly zeroCopy = false;
  readonly byteLength: number;
  /** What the bytes are made of. */
  readonly source: StorageBytes;
  readonly #fill: Fill;
  #closed = false;
  #ended = false;
  // Strong references, as those of a file: a detaching close must find the tensors' buffers.
  #kept: ArrayBuffer[] = [];

  /** `fill` is called only for bytes within `byteLength`, and not after the source has ended. */
  constructor(byteLength: number, source: StorageBytes, fill: Fill) {
    this.byteLength = byteLength;
    this.source = source;
    this.#fill = fill;
  }

  get path(): string | undefined {
    return this.source.storage.path;
  }

  get maxBufferByteLength(): number {
    return this.source.storage.maxBufferByteLength;
  }

  get ok(): boolean {
    return this.source.storage.ok;
  }

  get closed(): boolean {
    return this.#closed || this.source.storage.closed;
  }

  get ended(): boolean {
    return this.#ended || this.source.storage.ended;
  }

  addReader(): void {
    this.source.storage.addReader();
  }

  removeReader(): void {
    this.source.storage.removeReader();
  }

  /** Every buffer is a new one and begins at an aligned address. */
  addressOf(_position: number): number {
    return 0;
  }

  bytes(begin: number, end: number, filled?: ArrayBuffer): BufferRange {
    const buffer = filled ?? this.window(begin, end).buffer;
    if (!this.closed) this.#kept.push(buffer);
    return { buffer, byteOffset: 0 };
  }

  window(begin: number, end: number): Uint8Array<ArrayBuffer> {
    this.verify();
    const bytes = allocate(Uint8Array, end - begin, { path: this.path });
    this.#fill(bytes, begin);
    this.verify();
    return bytes;
  }

  readInto(target: Uint8Array, position: number): void {
    if (this.ended) throw new FileClosedError({ path: this.path });
    this.#fill(target, position);
  }

  /** Unknown: the bytes are made in any case, whether those of the source are in memory or not. */
  residentBytes(_begin: number, _end: number): null {
    return null;
  }

  hold(begin: number, end: number): Uint8Array<ArrayBuffer> {
    return this.window(begin, end);
  }

  verify(): void {
    if (this.#ended) throw new FileClosedError({ path: this.path });
    this.source.storage.verify();
  }

  /** There is nothing to hand out that costs less than the question. */
  verifyOften(): void {
    this.verify();
  }

  close(detach: boolean): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#ended = detach;
    const kept = this.#kept;
    this.#kept = [];
    if (detach) emptyBuffers(kept, (buffer) => structuredClone(buffer, { transfer: [buffer] }));
  }
}
