/** The SHA-256 of ranges of a file, from its bytes as they go by. */

import { createHash, type Hash } from 'node:crypto';

/** Bytes [begin, end) of a file to hash separately. */
export interface HashedRange {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
}

/** Hashes ranges that do not overlap, in order, one at a time. */
export class RangeHashes {
  readonly #ranges: readonly HashedRange[];
  readonly #digests = new Map<string, string>();
  #at = 0;
  #current = 0;
  #hash: Hash = createHash('sha256');

  constructor(ranges: readonly HashedRange[]) {
    this.#ranges = ranges;
    // Empty ranges at the start end before any bytes.
    this.add(new Uint8Array(0));
  }

  /** Takes the next bytes of the file. */
  add(piece: Uint8Array): void {
    const at = this.#at;
    this.#at += piece.length;
    for (; this.#current < this.#ranges.length; this.#current++) {
      const { name, begin, end } = this.#ranges[this.#current] as HashedRange;
      updateWithin(this.#hash, piece, at, begin, end);
      if (end > this.#at) return;
      this.#digests.set(name, this.#hash.digest('hex'));
      this.#hash = createHash('sha256');
    }
  }

  /** The digests of the ranges that have ended, in hexadecimal digits by name, in order. */
  digests(): ReadonlyMap<string, string> {
    return this.#digests;
  }

  /** The same without the names, joined, as bytes of text. */
  text(): Uint8Array<ArrayBuffer> {
    return new TextEncoder().encode([...this.#digests.values()].join(''));
  }
}

/** Hashes the part of [begin, end) of the file in a piece that begins at `at`. */
export function updateWithin(
  hash: Hash,
  piece: Uint8Array,
  at: number,
  begin: number,
  end: number,
): void {
  if (at >= end || at + piece.length <= begin) return;
  hash.update(piece.subarray(Math.max(0, begin - at), Math.min(piece.length, end - at)));
}
