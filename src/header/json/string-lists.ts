/** Many strings of a text, decoded together. A string begins behind its opening quote, at its start. */

import { SURROGATE, sortByName } from './code-point-order.js';
import { decodeString } from './strings.js';

/**
 * Bytes that are decoded at once. A string that is cut out of a piece keeps the whole piece in memory:
 * that is why a piece is not the whole text.
 */
const DECODED_PIECE_BYTE_LENGTH = 2 ** 16;

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/** The first `count` strings, which were checked before, in the order of their starts. */
export function decodeStrings(bytes: Uint8Array, starts: Uint32Array, count: number): string[] {
  return new PieceDecoder(bytes).decode(starts, count);
}

/** The same, sorted by their UTF-8 bytes, the order of the reference. */
export function sortedStrings(bytes: Uint8Array, starts: Uint32Array, count: number): string[] {
  const decoder = new PieceDecoder(bytes);
  const strings = decoder.decode(starts, count);
  // Without surrogates the engine's own order is the same, and much faster.
  if (!decoder.hasSurrogates) return strings.sort();
  sortByName(strings, (string) => string);
  return strings;
}

/** Cuts strings out of decoded pieces of the text, where these are nothing but ASCII without escapes. */
class PieceDecoder {
  readonly #bytes: Uint8Array;
  /** Decoded pieces; empty where strings have to be decoded one by one. */
  readonly #pieces: (string | undefined)[];
  /** Whether a string has characters above U+FFFF. */
  hasSurrogates = false;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    const count = Math.ceil(bytes.length / DECODED_PIECE_BYTE_LENGTH);
    this.#pieces = new Array(count).fill(undefined);
  }

  decode(starts: Uint32Array, count: number): string[] {
    const strings: string[] = [];
    for (let i = 0; i < count; i++) strings.push(this.#decodeOne(starts[i] as number));
    return strings;
  }

  #decodeOne(start: number): string {
    const number = Math.floor(start / DECODED_PIECE_BYTE_LENGTH);
    const piece = this.#pieces[number] ?? this.#decodePiece(number);
    const at = start - number * DECODED_PIECE_BYTE_LENGTH;
    const end = piece.indexOf('"', at);
    if (end !== -1) return piece.slice(at, end);
    const string = decodeString(this.#bytes, start);
    this.hasSurrogates ||= SURROGATE.test(string);
    return string;
  }

  #decodePiece(number: number): string {
    const begin = number * DECODED_PIECE_BYTE_LENGTH;
    const bytes = this.#bytes.subarray(begin, begin + DECODED_PIECE_BYTE_LENGTH);
    const text = decoder.decode(bytes);
    // Whatever is not ASCII takes more bytes than characters, but for bytes of a character that the
    // piece's ends cut through; no string between two quotes of the piece has one of those.
    const isPlain = text.length === bytes.length && !text.includes('\\');
    const piece = isPlain ? text : '';
    this.#pieces[number] = piece;
    return piece;
  }
}
