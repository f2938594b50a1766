/** Reads the bytes of a pickle: numbers, texts and lines, each checked against the end first. */

import { FormatError } from '../../errors/errors.js';
import { PickledBytes, type PickledEncoding } from './inner-files.js';
import {
  type AllPickleLimits,
  formatPlace,
  type PickleContext,
  type PickleLimits,
  pickleEndError,
  pickleError,
  pickleLimitError,
} from './limits.js';

// A byte order mark is a character like any other.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Texts up to this length are decoded here: calling the decoder takes longer. */
const SHORT_TEXT_LENGTH = 24;

/** Python reads names of globals up to a line's end; real ones are shorter than this. */
const MAX_LINE_LENGTH = 4096;

const LINE_FEED = 0x0a;

/** UTF-8 of the replacement character. */
const REPLACEMENT = Uint8Array.of(0xef, 0xbf, 0xbd);

/** A position in the bytes of a pickle; other data may follow the pickle. */
export class PickleReader {
  /** The next byte. */
  at: number;
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #end: number;
  /** End of the file that begins with these bytes. */
  readonly #fileEnd: number;
  /** Whether an error was found other than a limit. */
  isMalformed = false;
  readonly #limits: AllPickleLimits;
  readonly #context: PickleContext;

  /** The pickle begins at `begin` and ends anywhere before the end of the bytes. */
  constructor(
    bytes: Uint8Array,
    begin: number,
    limits: AllPickleLimits,
    context: PickleContext,
    fileEnd: number = bytes.length,
  ) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = begin;
    this.#end = Math.min(bytes.length, begin + limits.maxPickleByteLength);
    this.#fileEnd = fileEnd;
    this.#limits = limits;
    this.#context = context;
  }

  /** Bytes that are left. */
  get left(): number {
    return this.#end - this.at;
  }

  /** The next byte. */
  byte(): number {
    if (this.at >= this.#end) this.#failAtEnd(1);
    return this.#bytes[this.at++] as number;
  }

  /** The next bytes, as a view. */
  take(byteLength: number): Uint8Array {
    const begin = this.skip(byteLength);
    return this.#bytes.subarray(begin, this.at);
  }

  /** The bytes [begin, end) before the next byte, as a view. */
  slice(begin: number, end: number): Uint8Array {
    return this.#bytes.subarray(begin, end);
  }

  /** The bytes [begin, end) before the next byte, as a value of the pickle. */
  pickled(begin: number, end: number, encoding: PickledEncoding): PickledBytes {
    return new PickledBytes(this.#bytes, begin, end, encoding);
  }

  /** Skips the next bytes; returns the position of the first. */
  skip(byteLength: number): number {
    if (byteLength > this.#end - this.at) this.#failAtEnd(byteLength);
    const begin = this.at;
    this.at += byteLength;
    return begin;
  }

  uint16(): number {
    return this.#view.getUint16(this.skip(2), true);
  }

  int32(): number {
    return this.#view.getInt32(this.skip(4), true);
  }

  uint32(): number {
    return this.#view.getUint32(this.skip(4), true);
  }

  /** A length in 8 bytes. An unsafe integer is far beyond the end. */
  uint64(): number {
    return Number(this.#view.getBigUint64(this.skip(8), true));
  }

  /** A big-endian double, as pickles have them. */
  float64(): number {
    return this.#view.getFloat64(this.skip(8), false);
  }

  /** A little-endian integer in two's complement; a number where that is exact. */
  integer(byteLength: number): number | bigint {
    const bytes = this.take(byteLength);
    if (byteLength <= 6) {
      let value = 0;
      for (let i = byteLength - 1; i >= 0; i--) value = value * 256 + (bytes[i] as number);
      const isNegative = byteLength > 0 && (bytes[byteLength - 1] as number) >= 128;
      return isNegative ? value - 256 ** byteLength : value;
    }
    const wordsEnd = byteLength - (byteLength % 8);
    let unsigned = 0n;
    for (let i = byteLength - 1; i >= wordsEnd; i--) {
      unsigned = (unsigned << 8n) | BigInt(bytes[i] as number);
    }
    const begin = this.at - byteLength;
    for (let at = begin + wordsEnd - 8; at >= begin; at -= 8) {
      unsigned = (unsigned << 64n) | this.#view.getBigUint64(at, true);
    }
    const value = BigInt.asIntN(8 * byteLength, unsigned);
    const number = Number(value);
    return Number.isSafeInteger(number) ? number : value;
  }

  /** UTF-8 of that many bytes. */
  text(byteLength: number): string {
    const begin = this.skip(byteLength);
    const short = shortText(this.#bytes, begin, byteLength);
    if (short !== undefined) return short;
    try {
      return decoder.decode(this.#bytes.subarray(begin, this.at));
    } catch {
      throw this.error('expected UTF-8, found other bytes', begin);
    }
  }

  /** An approximate text; undefined if Python refuses it. Replaces lone surrogates, which Python accepts. */
  looseText(byteLength: number): string | undefined {
    const begin = this.skip(byteLength);
    const short = shortText(this.#bytes, begin, byteLength);
    if (short !== undefined) return short;
    const whole = this.#bytes.slice(begin, this.at);
    for (let at = 0; at + 2 < whole.length; at++) {
      const isHalf = whole[at] === 0xed && ((whole[at + 1] as number) & 0xe0) === 0xa0;
      if (isHalf) whole.set(REPLACEMENT, at);
    }
    try {
      return decoder.decode(whole);
    } catch {
      return undefined;
    }
  }

  /** Whether the line ends before the bytes do. */
  get hasLine(): boolean {
    return this.#lineEnd() < this.#bytes.length;
  }

  /** A line of text, without its end. */
  line(): string {
    const begin = this.at;
    const end = this.#lineEnd();
    if (end === this.#bytes.length) {
      throw this.endError('expected a whole line, found no end', begin);
    }
    const text = this.text(end - begin);
    this.byte();
    return text;
  }

  /** A line as Python's own reader returns it: if the bytes end within the line, all of them but the last. */
  lineOrRest(): string {
    if (this.hasLine) return this.line();
    const { length } = this.#bytes;
    const text = this.text(Math.max(length - 1 - this.at, 0));
    this.at = length;
    return text;
  }

  /** The start of a line above the length limit; undefined for shorter lines. */
  longLine(): string | undefined {
    const start = this.#bytes.subarray(this.at, this.at + MAX_LINE_LENGTH);
    if (start.length < MAX_LINE_LENGTH || start.includes(LINE_FEED)) return undefined;
    return String.fromCharCode(...start);
  }

  /** Position of the line's end, or of the end of the bytes. */
  #lineEnd(): number {
    const last = Math.min(this.at + MAX_LINE_LENGTH, this.#bytes.length);
    let end = this.at;
    while (end < last && this.#bytes[end] !== LINE_FEED) end++;
    if (end < last || end === this.#bytes.length) return end;
    throw new FormatError(
      'SAFETENSORS_FOREIGN_LIMIT',
      `${formatPlace(this.at, this.#context)}: expected a line of at most ${MAX_LINE_LENGTH} bytes, found a longer one`,
      this.#context,
    );
  }

  /** Skips a line of any bytes. */
  skipLine(): void {
    const end = this.#bytes.subarray(this.at, this.#end).indexOf(LINE_FEED);
    this.skip(end === -1 ? this.left + 1 : end + 1);
  }

  /** An error about the byte at a position. */
  error(message: string, at: number): Error {
    this.isMalformed = true;
    return pickleError(message, at, this.#context);
  }

  /** An error about a pickle that continues beyond the bytes. */
  endError(message: string, at: number): Error {
    this.isMalformed = true;
    return pickleEndError(message, at, this.#context);
  }

  /** An error about a limit that is exceeded at a position. */
  limitError(name: keyof PickleLimits, at: number): Error {
    return pickleLimitError(name, this.#limits, at, this.#context);
  }

  #failAtEnd(byteLength: number): never {
    // The bytes continue, but the pickle must end before.
    if (this.#end < this.#fileEnd && byteLength <= this.#fileEnd - this.at) {
      throw this.limitError('maxPickleByteLength', this.at);
    }
    const message = `expected ${byteLength} more bytes, found ${this.left}`;
    throw this.endError(message, this.at);
  }
}

/** The text of a few bytes of pure ASCII. */
function shortText(bytes: Uint8Array, begin: number, length: number): string | undefined {
  if (length > SHORT_TEXT_LENGTH) return undefined;
  // V8 takes arguments from an array twice as fast as from a view.
  const codes = new Array<number>(length);
  for (let i = 0; i < length; i++) {
    const code = bytes[begin + i] as number;
    if (code >= 0x80) return undefined;
    codes[i] = code;
  }
  return String.fromCharCode.apply(null, codes);
}
