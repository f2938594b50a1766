/**
 * HalfSipHash-1-3 (Aumasson and Bernstein): a keyed hash, for which nobody can make colliding
 * names without the key. Names come from files that strangers wrote, and a hash without a key, or
 * one whose key only seeds it (FNV, polynomials, murmur), lets them turn a table into a list.
 */
import { StringBytes } from './json-string.js';

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** A 64-bit key: two 32-bit words. */
export type HashKey = readonly [number, number];

/**
 * Hash of a JSON string's decoded bytes, so that every spelling of a name has the same one; from
 * 0 to 2^32 - 1. `start` is the position behind the opening quote of a valid string.
 */
export function hashString(bytes: Uint8Array, start: number, key: HashKey): number {
  let v0 = key[0];
  let v1 = key[1];
  let v2 = 0x6c796765 ^ v0;
  let v3 = 0x74656462 ^ v1;
  let at = start;
  let rest: StringBytes | null = null;
  let length = 0;
  // 0 while there are bytes, then 1 for the last word and 2 to 4 for the rounds after it.
  let final = 0;
  while (final < 4) {
    let word = 0;
    if (final > 0) {
      final++;
    } else {
      for (let shift = 0; shift < 32; shift += 8) {
        let byte = rest === null ? (bytes[at++] as number) : rest.next();
        if (rest === null && byte === BACKSLASH) {
          rest = new StringBytes(bytes, at - 1);
          byte = rest.next();
        } else if (byte === -1 || (byte === QUOTE && rest === null)) {
          final = 1;
          word |= length << 24;
          break;
        }
        word |= byte << shift;
        length++;
      }
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
    if (final === 1) v2 ^= 0xff;
  }
  return (v1 ^ v3) >>> 0;
}

/**
 * Above this many bytes of header a key must be unpredictable; below, names that all collide cost
 * at most half a second of comparing. The first use of Web Crypto in a process takes 4 ms, ten
 * times what opening a file of a few hundred tensors does.
 */
const STRONG_KEY_FROM = 256 * 1024;

let quickKey: HashKey | null = null;
let strongKey: HashKey | null = null;

/** This process's random key for the keys of a header of that many bytes. */
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
