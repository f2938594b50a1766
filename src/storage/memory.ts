/** Bytes in ordinary memory: the caller's after `parse`, or a slice that was gathered. */

import { FileClosedError } from '../errors/errors.js';
import type { BufferRange, Storage } from './storage.js';

/** Views over the caller's memory; nothing is copied, and closing frees nothing. */
export class MemoryStorage implements Storage {
  readonly kind = 'memory';
  readonly path: string | undefined;
  readonly byteLength: number;
  readonly maxBufferByteLength: number;
  readonly ok = true;
  readonly zeroCopy = true;
  closed = false;
  readonly #bytes: Uint8Array<ArrayBuffer>;

  /**
   * The memory stays the caller's. `maxBufferByteLength` is the longest buffer that this runtime can
   * make, in bytes.
   */
  constructor(bytes: Uint8Array<ArrayBuffer>, maxBufferByteLength: number, path?: string) {
    this.path = path;
    this.maxBufferByteLength = maxBufferByteLength;
    this.#bytes = bytes;
    this.byteLength = bytes.byteLength;
  }

  addressOf(position: number): number {
    return this.#bytes.byteOffset + position;
  }

  bytes(begin: number, _end: number): BufferRange {
    if (this.closed) throw new FileClosedError({ path: this.path });
    return { buffer: this.#bytes.buffer, byteOffset: this.#bytes.byteOffset + begin };
  }

  window(begin: number, end: number): Uint8Array<ArrayBuffer> {
    if (this.closed) throw new FileClosedError({ path: this.path });
    return this.#bytes.subarray(begin, end);
  }

  /** Unknown: the system may have moved the caller's memory to a swap device. */
  residentBytes(_begin: number, _end: number): null {
    return null;
  }

  hold(): undefined {
    return undefined;
  }

  verify(): void {
    if (this.closed) throw new FileClosedError({ path: this.path });
  }

  close(): void {
    this.closed = true;
  }
}
