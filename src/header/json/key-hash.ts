/**
 * HalfSipHash-1-3 (Aumasson and Bernstein): a keyed hash. Without the key an attacker cannot make names that collide.
 * Names come from files that strangers wrote; a hash without a key, or one that a key only seeds (FNV, polynomials,
 * murmur), would let them turn a hash table into a list.
 */
import type { JsonReader } from './reader.js';
import { StringBytes } from './strings.js';

/** A 64-bit key: two 32-bit words. */
export type HashKey = readonly [number, number];

/**
 * Hash of the string that `reader` read last, which began at `start`: from 0 to 2^32 - 1. It hashes
 * the decoded bytes: every spelling of a name has the same hash.
 */
export function hashString(reader: JsonReader, start: number, key: HashKey): number {
  const { view, stringEnd } = reader;
  const escaped = reader.isEscaped ? new EscapedWords(reader.bytes, start) : null;
  let v0 = key[0];
  let v1 = key[1];
  let v2 = 0x6c796765 ^ v0;
  let v3 = 0x74656462 ^ v1;
  // Up to here four bytes are read at once.
  const wordsEnd = escaped === null ? stringEnd - 4 : -1;
  let at = start;
  // 0 while bytes are left, 1 after the last word, 2 to 4 after the rounds that follow it.
  let final = 0;
  for (;;) {
    let word = 0;
    if (at <= wordsEnd) {
      word = view.getInt32(at, true);
      at += 4;
    } else if (final > 0) {
      if (final === 4) return (v1 ^ v3) >>> 0;
      if (final === 1) v2 ^= 0xff;
      final++;
    } else if (escaped === null) {
      word = lastWord(reader.bytes, at, stringEnd) | ((stringEnd - start) << 24);
      final = 1;
    } else {
      word = escaped.next();
      if (escaped.isAtEnd) final = 1;
    }
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
}

/** Up to three bytes from `at` to `end`, the first one lowest. */
function lastWord(bytes: Uint8Array, at: number, end: number): number {
  let word = 0;
  for (let i = end - 1; i >= at; i--) word = (word << 8) | (bytes[i] as number);
  return word;
}

/** The words of a string with escapes. */
class EscapedWords {
  readonly #rest: StringBytes;
  #length = 0;
  /** Whether the word given last was the one that ends the string. */
  isAtEnd = false;

  constructor(bytes: Uint8Array, start: number) {
    this.#rest = new StringBytes(bytes, start);
  }

  /** Four bytes; at the end up to three, and the length of the string on top. */
  next(): number {
    let word = 0;
    for (let shift = 0; shift < 32; shift += 8) {
      const byte = this.#rest.next();
      if (byte === -1) {
        this.isAtEnd = true;
        return word | (this.#length << 24);
      }
      word |= byte << shift;
      this.#length++;
    }
    return word;
  }
}

/**
 * For headers of at least this many bytes the key comes from Web Crypto, whose first use in a process takes longer
 * than opening a file. Math.random is enough for shorter ones: even if an attacker predicted it, names that all
 * collide would cost half a second of comparing.
 */
const STRONG_KEY_FROM = 256 * 1024;

let quickKey: HashKey | null = null;
let strongKey: HashKey | null = null;

/** This process's random key for a header or an index of that many bytes. */
export function processHashKey(headerByteLength: number): HashKey {
  if (headerByteLength < STRONG_KEY_FROM) {
    quickKey ??= [(Math.random() * 2 ** 32) | 0, (Math.random() * 2 ** 32) | 0];
    return quickKey;
  }
  if (strongKey === null) {
    const words = crypto.getRandomValues(new Int32Array(2));
    strongKey = [words[0] as number, words[1] as number];
  }
  return strongKey;
}
