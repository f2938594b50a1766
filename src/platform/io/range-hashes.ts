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
  #current = 0;
  #hash: Hash = createHash('sha256');

  constructor(ranges: readonly HashedRange[]) {
    this.#ranges = ranges;
  }

  /** Takes the next bytes of the file, which begin at `at`. */
  update(piece: Uint8Array, at: number): void {
    for (; this.#current < this.#ranges.length; this.#current++) {
      const { name, begin, end } = this.#ranges[this.#current] as HashedRange;
      updateWithin(this.#hash, piece, at, begin, end);
      if (end > at + piece.length) return;
      this.#digests.set(name, this.#hash.digest('hex'));
      this.#hash = createHash('sha256');
    }
  }

  /** The sums of the ranges that have ended, in hexadecimal digits by name, in order. */
  digests(): ReadonlyMap<string, string> {
    return this.#digests;
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
