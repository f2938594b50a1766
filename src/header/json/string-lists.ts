/** Decodes many strings of a text, together or in turn. A start is the position after a string's opening quote. */

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
    const number = pieceOf(start);
    this.#pieces[number] ??= decodePiece(this.#bytes, number);
    const found = stringIn(this.#pieces[number], start);
    if (found !== undefined) return found;
    const string = decodeString(this.#bytes, start);
    this.hasSurrogates ||= SURROGATE.test(string);
    return string;
  }
}

/** The number of the piece in which a string begins. */
function pieceOf(start: number): number {
  return Math.floor(start / DECODED_PIECE_BYTE_LENGTH);
}

/** The text of a piece; empty unless it is pure ASCII without escapes. */
function decodePiece(bytes: Uint8Array, number: number): string {
  const begin = number * DECODED_PIECE_BYTE_LENGTH;
  const piece = bytes.subarray(begin, begin + DECODED_PIECE_BYTE_LENGTH);
  const text = decoder.decode(piece);
  // Non-ASCII text has more bytes than characters, unless the piece's ends cut through a character; no string
  // between two quotes of the piece contains such a cut.
  const isPlain = text.length === piece.length && !text.includes('\\');
  return isPlain ? text : '';
}

/** The string with that start, if the piece contains its end. */
function stringIn(piece: string, start: number): string | undefined {
  const at = start % DECODED_PIECE_BYTE_LENGTH;
  const end = piece.indexOf('"', at);
  return end === -1 ? undefined : piece.slice(at, end);
}

/** Strings of one piece that are decoded one by one before the piece is. */
const SINGLE_STRINGS = 8;

/** Decodes strings in turn: a loop over all of them takes an eighth of the time of decoding each by itself. */
export class StringDecoder {
  readonly #bytes: Uint8Array;
  /** The piece of the last string, its number, and the strings of it in a row. */
  #piece = '';
  #number = -1;
  #count = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  decode(start: number): string {
    const number = pieceOf(start);
    if (number !== this.#number) {
      this.#number = number;
      this.#piece = '';
      this.#count = 0;
    }
    this.#count++;
    if (this.#count === SINGLE_STRINGS) this.#piece = decodePiece(this.#bytes, number);
    return stringIn(this.#piece, start) ?? decodeString(this.#bytes, start);
  }
}
