/** Bytes that are computed on demand, window by window: gathered, byte-swapped or inflated. */

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

/**
 * As `Fill`, synchronously or on other threads: `target` must not be used before the promise settles. After an abort it
 * soon rejects with the reason of the signal where computing takes long; else it fills the target.
 */
export type AsyncFill = (
  target: Uint8Array,
  position: number,
  signal?: AbortSignal | undefined,
) => void | Promise<void>;

/**
 * Makes bytes from those of another storage. Both are closed together, and readers of this one are readers of
 * the other. Every buffer is new.
 */
export class ComputedStorage implements Storage {
  readonly kind = 'read';
  readonly zeroCopy = false;
  readonly byteLength: number;
  /** The bytes that these are made from. */
  readonly source: StorageBytes;
  readonly #fill: Fill;
  #closed = false;
  #ended = false;
  // Strong references, as for a file: a detaching close must find the tensors' buffers.
  #kept: ArrayBuffer[] = [];

  /** Calls `fill` only for bytes within `byteLength`, and never after the source has ended. */
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

  /** 0: every buffer is new and begins at an aligned address. */
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

  /** Null: the bytes are always computed, wherever those of the source are. */
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

  /** Always asks the source: computing the bytes costs more than the check. */
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

/**
 * Values of a view, computed from tensors of another checkpoint: every use computes its own part, and only the tensor
 * that has the storage retains the whole, once its buffer was used.
 */
export class ViewStorage extends ComputedStorage {
  readonly isComputed = true;
  /** Fills memory of writers with the same bytes on other threads. */
  readonly fillAsync: AsyncFill | undefined;

  constructor(byteLength: number, source: StorageBytes, fill: Fill, fillAsync?: AsyncFill) {
    super(byteLength, source, fill);
    this.fillAsync = fillAsync;
  }

  /** Functions that compute verify the files that they read, after each use: here it is only whether these are gone. */
  override verify(): void {
    if (this.ended) throw new FileClosedError({ path: this.path });
  }

  /** The buffer is new memory: closing the source with `detach` leaves it. */
  override bytes(begin: number, end: number, filled?: ArrayBuffer): BufferRange {
    return { buffer: filled ?? this.window(begin, end).buffer, byteOffset: 0 };
  }
}
