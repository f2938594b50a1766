/** The SHA-256 of ranges of a file, from its bytes as they go by. */

import crypto, { createHash, type Hash } from 'node:crypto';
import { runSync, type Work } from '../../work/work.js';

/** Bytes [begin, end) of a file to hash separately. */
export interface HashedRange {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
}

/** Hashes of short ranges between two points at which work may yield: about 0.5 ms. */
const RANGES_PER_YIELD = 64;

/** Other runtimes than Node may lack `hash`, which needs no object for each: these take several times as long. */
function digestOf(bytes: Uint8Array): string {
  const { hash }: { readonly hash?: typeof crypto.hash } = crypto;
  return hash?.('sha256', bytes, 'hex') ?? createHash('sha256').update(bytes).digest('hex');
}

/** Hashes ranges that do not overlap, in order, one at a time. */
export class RangeHashes {
  readonly #ranges: readonly HashedRange[];
  readonly #digests = new Map<string, string>();
  #at = 0;
  #current = 0;
  /** Of the range whose start was in an earlier piece. */
  #hash: Hash | undefined;

  constructor(ranges: readonly HashedRange[]) {
    this.#ranges = ranges;
    // Empty ranges at the start end before any bytes.
    this.add(new Uint8Array(0));
  }

  /** Takes the next bytes of the file. */
  add(piece: Uint8Array): void {
    runSync(this.addYielding(piece));
  }

  /** As `add`: a piece may have thousands of short ranges. */
  *addYielding(piece: Uint8Array): Work<void> {
    const at = this.#at;
    this.#at += piece.length;
    for (let count = 1; this.#current < this.#ranges.length; this.#current++, count++) {
      if (count % RANGES_PER_YIELD === 0) yield;
      const { name, begin, end } = this.#ranges[this.#current] as HashedRange;
      if (begin >= at && end <= this.#at) {
        this.#digests.set(name, digestOf(piece.subarray(begin - at, end - at)));
        continue;
      }
      this.#hash ??= createHash('sha256');
      updateWithin(this.#hash, piece, at, begin, end);
      if (end > this.#at) return;
      this.#digests.set(name, this.#hash.digest('hex'));
      this.#hash = undefined;
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
