/** Bytes in ordinary memory: the caller's after `parse`, a gathered slice, a loaded tensor. */

import type { BufferRange, Storage } from './storage.js';

/** Returns views of the memory; copies nothing. Closing frees nothing and ends no tensor. */
export class MemoryStorage implements Storage {
  readonly kind = 'memory';
  readonly path: string | undefined;
  readonly byteLength: number;
  readonly maxBufferByteLength: number;
  readonly ok = true;
  readonly zeroCopy = true;
  readonly ended = false;
  closed = false;
  readonly #bytes: Uint8Array<ArrayBuffer>;

  /** `maxBufferByteLength` is the length of the longest buffer that the runtime can make. */
  constructor(bytes: Uint8Array<ArrayBuffer>, maxBufferByteLength: number, path?: string) {
    this.path = path;
    this.maxBufferByteLength = maxBufferByteLength;
    this.#bytes = bytes;
    this.byteLength = bytes.byteLength;
  }

  addReader(): void {}

  removeReader(): void {}

  addressOf(position: number): number {
    return this.#bytes.byteOffset + position;
  }

  bytes(begin: number, _end: number): BufferRange {
    return { buffer: this.#bytes.buffer, byteOffset: this.#bytes.byteOffset + begin };
  }

  window(begin: number, end: number): Uint8Array<ArrayBuffer> {
    return this.#bytes.subarray(begin, end);
  }

  /** Null: the system may have swapped the memory out. */
  residentBytes(_begin: number, _end: number): null {
    return null;
  }

  hold(): undefined {
    return undefined;
  }

  verify(): void {}

  verifyOften(): void {}

  close(): void {
    this.closed = true;
  }
}
