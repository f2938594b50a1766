/** The SHA-256 of ranges of a file, or a keyed hash of them, from its bytes as they go by. */

import crypto, { type CipherGCM, createCipheriv, createHash } from 'node:crypto';
import { runSync, type Work } from '../../work/work.js';

/** Bytes [begin, end) of a file to hash separately. */
export interface HashedRange {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
  /** Of a keyed hash to compute instead of the SHA-256. */
  readonly key?: Uint8Array | undefined;
}

/** The cipher whose authentication tags are keyed hashes. */
export const MAC_ALGORITHM = 'aes-128-gcm';

/** Always the same: tags are only compared, and never leave the process. */
export const MAC_NONCE: Uint8Array = new Uint8Array(12);

/** Of fewer bytes, the SHA-256 takes less time than a keyed hash. */
export const KEYED_BYTE_LENGTH: number = 128 * 2 ** 10;

/** A hash of bytes that are passed in order. */
interface Updated {
  update(bytes: Uint8Array): unknown;
  digest(encoding: 'hex'): string;
}

/**
 * The keyed hash GMAC, nine times as fast as SHA-256. Without the key, which never leaves the process, other bytes with
 * the same hash cannot be chosen. Starting one takes as long as hashing 100 KiB.
 */
class Mac implements Updated {
  readonly #cipher: CipherGCM;

  constructor(key: Uint8Array) {
    this.#cipher = createCipheriv(MAC_ALGORITHM, key, MAC_NONCE);
  }

  update(bytes: Uint8Array): void {
    this.#cipher.setAAD(bytes);
  }

  digest(): string {
    this.#cipher.final();
    return this.#cipher.getAuthTag().toString('hex');
  }
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
  #hash: Updated | undefined;

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
      const { name, begin, end, key } = this.#ranges[this.#current] as HashedRange;
      if (key === undefined && begin >= at && end <= this.#at) {
        this.#digests.set(name, digestOf(piece.subarray(begin - at, end - at)));
        continue;
      }
      // The next piece may have all of it.
      if (begin >= this.#at && end > this.#at) return;
      this.#hash ??= key === undefined ? createHash('sha256') : new Mac(key);
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
  hash: Updated,
  piece: Uint8Array,
  at: number,
  begin: number,
  end: number,
): void {
  if (at >= end || at + piece.length <= begin) return;
  hash.update(piece.subarray(Math.max(0, begin - at), Math.min(piece.length, end - at)));
}
