/** Decodes many strings of a text together. A start is the position after a string's opening quote. */

import { SURROGATE, sortByName } from './code-point-order.js';
import { decodeString } from './strings.js';

/**
 * Bytes that are decoded at once. A substring keeps its whole piece in memory, so a piece is only a part of the text.
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

/** Cuts strings out of decoded pieces of the text that are pure ASCII without escapes. */
class PieceDecoder {
  readonly #bytes: Uint8Array;
  /** Decoded pieces; an empty piece means that its strings are decoded one by one. */
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
    // Non-ASCII text has more bytes than characters, unless the piece's ends cut through a character; no string
    // between two quotes of the piece contains such a cut.
    const isPlain = text.length === bytes.length && !text.includes('\\');
    const piece = isPlain ? text : '';
    this.#pieces[number] = piece;
    return piece;
  }
}
