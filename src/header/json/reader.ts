/**
 * A strict JSON reader (RFC 8259) over bytes. It goes through a text once, checks every byte and makes
 * no objects. The caller decides what a value means and which positions to keep.
 */
import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';
import {
  decodeString,
  escapedUnit,
  isHighSurrogate,
  isLowSurrogate,
  PLAIN_BYTES,
} from './strings.js';
import {
  BYTE_ORDER_MARK,
  checkUtf8,
  describeByte,
  HEADER_TEXT,
  hasByteOrderMark,
  sequenceEnd,
  type TextKind,
} from './utf8.js';

// skip.ts and strings.ts define some of these again: without a bundler, imported constants made reading
// a shape of 50 million dimensions 40 % slower, since interpreted code looks each of them up.
/** `"` */
export const QUOTE = 0x22;
/** `,` */
export const COMMA = 0x2c;
/** `:` */
export const COLON = 0x3a;
/** `[` */
export const OPEN_BRACKET = 0x5b;
/** `]` */
export const CLOSE_BRACKET = 0x5d;
/** `{` */
export const OPEN_BRACE = 0x7b;
/** `}` */
export const CLOSE_BRACE = 0x7d;
const BACKSLASH = 0x5c;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const UPPER_E = 0x45;
const LOWER_E = 0x65;
/** Returned by `peek` at the end of the text; no rule accepts it. */
const NO_BYTE = -1;

/** Integers of so many digits are exact as JavaScript numbers: 10^15 - 1 is below 2^53. */
const EXACT_DIGITS = 15;
/** Digits of 2^64 - 1. */
const MAX_DIGITS = 20;

/** Digits of the lower part, whose value is below 10^9. */
const LOWER_DIGITS = 9;

/** ASCII text of at least four bytes, cut into words of four; the last overlaps the one before. */
export class ExpectedText {
  /** Bytes of the text. */
  readonly byteLength: number;
  readonly #text: string;
  /** Place of each word in the text. */
  readonly places: number[] = [];
  /** The words, little endian; undefined until `cut` was called. */
  words: readonly number[] | undefined = undefined;

  /** A text for `skipLiteral`, which is cut when it is first looked for: most headers need none. */
  constructor(text: string) {
    this.byteLength = text.length;
    this.#text = text;
  }

  /** Cuts the text into words. */
  cut(): readonly number[] {
    const text = this.#text;
    const words: number[] = [];
    for (let at = 0; at < text.length; at += 4) {
      const place = Math.min(at, text.length - 4);
      let word = 0;
      for (let i = 3; i >= 0; i--) word = (word << 8) | text.charCodeAt(place + i);
      this.places.push(place);
      words.push(word);
    }
    this.words = words;
    return words;
  }
}

/** Reads one JSON text; `at` is the position of the next byte. */
export class JsonReader {
  /** The text. Bytes outside ASCII are checked where they are allowed, inside strings. */
  readonly bytes: Uint8Array;
  /** Position of the next byte. */
  at = 0;
  /** The same memory, to read four bytes in one step; little endian. */
  readonly view: DataView;
  /** Position of the closing quote of the string read last. */
  stringEnd = 0;
  /** Whether the string read last contains escapes. */
  isEscaped = false;
  /** The integer read last: its lower and its upper 32 bits. */
  readonly halves: Uint32Array = new Uint32Array(2);
  /** Position of the name of the tensor that is being read, for messages; -1 if absent. */
  tensorAt = -1;
  /** Position of the metadata key whose value is being read, for messages; -1 outside such values. */
  metadataKeyAt = -1;
  // A copy of bytes.length: in interpreted code, asking a typed array for it costs a call.
  readonly #length: number;
  readonly #context: ErrorContext;
  readonly #kind: TextKind;

  /** For messages: `context` names the file, `kind` the kind of text. */
  constructor(bytes: Uint8Array, context: ErrorContext = {}, kind: TextKind = HEADER_TEXT) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#length = bytes.length;
    this.#context = context;
    this.#kind = kind;
  }

  /** Skips the byte order mark that Windows editors write before UTF-8 text. */
  skipByteOrderMark(): void {
    if (hasByteOrderMark(this.bytes)) this.at = BYTE_ORDER_MARK.length;
  }

  /** Skips whitespace and returns the byte that follows, -1 at the end; does not consume it. */
  peek(): number {
    const { bytes } = this;
    const length = this.#length;
    let at = this.at;
    while (at < length) {
      const byte = bytes[at] as number;
      if (byte > 0x20 || (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09)) {
        this.at = at;
        return byte;
      }
      at++;
    }
    this.at = at;
    return NO_BYTE;
  }

  /** Consumes `byte`, with whitespace before it; anything else is an error. */
  expect(byte: number, description: string): void {
    if (this.peek() !== byte) this.fail(description);
    this.at++;
  }

  /** Refuses everything but whitespace up to the end of the text. */
  expectEnd(): void {
    if (this.peek() !== NO_BYTE) this.fail('nothing but whitespace');
  }

  /**
   * After a member or element: true when a comma says that another one follows, false when
   * `close` ended the container. Both are consumed.
   */
  hasNext(close: number): boolean {
    let byte = this.bytes[this.at];
    if (byte !== COMMA && byte !== close) {
      byte = this.peek();
      if (byte !== COMMA && byte !== close) this.fail(`"," or "${String.fromCharCode(close)}"`);
    }
    this.at++;
    return byte === COMMA;
  }

  /** Consumes the opening bracket; true when the container is not empty. */
  enter(close: number): boolean {
    this.at++;
    if (this.peek() !== close) return true;
    this.at++;
    return false;
  }

  /** Consumes a key and its colon; returns the position of the key's first byte in the quotes. */
  readKey(): number {
    const { bytes } = this;
    if (bytes[this.at] !== QUOTE && this.peek() !== QUOTE) this.fail('a key in double quotes');
    const start = this.readString();
    if (bytes[this.at] === COLON) this.at++;
    else this.expect(COLON, '":" after the key');
    return start;
  }

  /** Consumes `literal` if exactly its bytes follow; skips no whitespace. */
  skipLiteral(literal: ExpectedText): boolean {
    const { view, at } = this;
    const { places, words = literal.cut() } = literal;
    if (at + literal.byteLength > this.#length) return false;
    for (let i = 0; i < words.length; i++) {
      if (view.getInt32(at + (places[i] as number), true) !== words[i]) return false;
    }
    this.at = at + literal.byteLength;
    return true;
  }

  /** Consumes the following bytes if they equal [begin, end), which were read before. */
  skipRepeated(begin: number, end: number): boolean {
    const { bytes, view, at } = this;
    const distance = at - begin;
    if (begin === end || end + distance > this.#length) return false;
    let from = begin;
    for (; from + 4 <= end; from += 4) {
      if (view.getInt32(from, true) !== view.getInt32(from + distance, true)) return false;
    }
    for (; from < end; from++) if (bytes[from] !== bytes[from + distance]) return false;
    this.at = end + distance;
    return true;
  }

  /** Consumes the string that begins here; returns the position after its opening quote. */
  readString(): number {
    const { bytes, view } = this;
    const length = this.#length;
    const start = this.at + 1;
    let at = start;
    this.isEscaped = false;
    for (;;) {
      while (at + 4 <= length) {
        // Are all four bytes literal text? A literal byte leaves the highest bit clear in all these numbers; the
        // first other byte sets it in one of them.
        const word = view.getInt32(at, true);
        const unquoted = (word ^ 0x22222222) - 0x01010101;
        const unescaped = (word ^ 0x5c5c5c5c) - 0x01010101;
        if (((word | (word - 0x20202020) | unquoted | unescaped) & ~0x7f7f7f7f) !== 0) break;
        at += 4;
      }
      if (at >= length) this.failAt(at, 'the closing quote of a string');
      const byte = bytes[at] as number;
      if (PLAIN_BYTES[byte] === 1) {
        do at++;
        while (PLAIN_BYTES[bytes[at] as number] === 1);
      } else if (byte === QUOTE) {
        this.stringEnd = at;
        this.at = at + 1;
        return start;
      } else if (byte === BACKSLASH) {
        this.isEscaped = true;
        at = this.#escapeEnd(at);
      } else {
        const end = byte < 0x80 ? -1 : sequenceEnd(bytes, at);
        if (end === -1) this.failAt(at, 'control characters to be escaped inside a string');
        at = end;
      }
    }
  }

  #escapeEnd(at: number): number {
    const { bytes } = this;
    const unit = escapedUnit(bytes, at);
    if (unit === -1) this.failAt(at, 'a valid escape sequence');
    if (bytes[at + 1] !== 0x75) return at + 2;
    if (isHighSurrogate(unit)) {
      const isPair = bytes[at + 7] === 0x75 && isLowSurrogate(escapedUnit(bytes, at + 6));
      if (!isPair) this.failAt(at, 'a low surrogate to follow the escaped high surrogate');
      return at + 12;
    }
    if (isLowSurrogate(unit)) {
      this.failAt(at, 'an escaped low surrogate to follow a high one');
    }
    return at + 6;
  }

  /**
   * Consumes an integer from 0 to 2^64 - 1 into `halves`; returns its value, exact up to
   * 2^53. A sign, a fraction or an exponent is an error, even where the value would be integral.
   */
  readUnsigned(): number {
    this.peek();
    const value = this.readShortUnsigned();
    if (value === -1) return this.#readLongUnsigned();
    this.halves[0] = value;
    this.halves[1] = value / 2 ** 32;
    return value;
  }

  /** Consumes an integer of up to 15 digits and returns it; returns -1 and consumes nothing without one. */
  readShortUnsigned(): number {
    const { bytes, at: start } = this;
    let at = start;
    let value = 0;
    let digit = (bytes[at] as number) - ZERO;
    while (digit >= 0 && digit <= 9) {
      value = value * 10 + digit;
      at++;
      digit = (bytes[at] as number) - ZERO;
    }
    const length = at - start;
    if (length !== 1 && (length === 0 || length > EXACT_DIGITS || bytes[start] === ZERO)) return -1;
    if (digit === DOT - ZERO || digit === UPPER_E - ZERO || digit === LOWER_E - ZERO) return -1;
    this.at = at;
    return value;
  }

  #readLongUnsigned(): number {
    const { bytes, at: start } = this;
    let end = start;
    while ((bytes[end] as number) >= ZERO && (bytes[end] as number) <= NINE) end++;
    const isInteger = bytes[end] !== DOT && bytes[end] !== LOWER_E && bytes[end] !== UPPER_E;
    if (end === start || !isInteger || (bytes[start] === ZERO && end > start + 1)) {
      this.fail('an integer from 0 to 2^64 - 1');
    }
    if (!splitInteger(bytes, start, end, this.halves)) {
      this.failAt(start, 'an integer from 0 to 2^64 - 1');
    }
    this.at = end;
    return (this.halves[1] as number) * 2 ** 32 + (this.halves[0] as number);
  }

  /** Refuses the text: `expected` is missing at the current position. */
  fail(expected: string): never {
    this.failAt(this.at, expected);
  }

  /**
   * Refuses the text at a position. Bytes that are not UTF-8, wherever they are, come before every
   * other reason (step 4 of reading a header), so the whole text is checked for them now.
   */
  failAt(at: number, expected: string, found?: string): never {
    const { noun, syntaxCode } = this.#kind;
    const key = this.#metadataKey();
    // All strings before this position are valid: bytes outside ASCII here are the first that are not UTF-8.
    const isNotUtf8 = (this.bytes[at] ?? 0) >= 0x80;
    checkUtf8(this.bytes, this.#context, isNotUtf8 ? key : '', this.#kind);
    const tensor = this.tensorAt === -1 ? undefined : decodeString(this.bytes, this.tensorAt);
    throw new FormatError(
      syntaxCode,
      `${key}expected ${expected} at ${noun} byte ${at}, found ${found ?? describeByte(this.bytes, at, noun)}`,
      { ...this.#context, tensor },
    );
  }

  #metadataKey(): string {
    if (this.metadataKeyAt === -1) return '';
    return `metadata key ${quoteName(decodeString(this.bytes, this.metadataKeyAt))}: `;
  }
}

/**
 * Splits the integer whose digits are the bytes [start, end) into its lower and its upper 32 bits;
 * false when it is above 2^64 - 1. It has at least 9 digits and no leading zeros.
 */
function splitInteger(bytes: Uint8Array, start: number, end: number, halves: Uint32Array): boolean {
  if (end - start > MAX_DIGITS) return false;
  const middle = end - LOWER_DIGITS;
  const upper = digitsValue(bytes, start, middle);
  // upper * 10^9 + the lower digits, with 20 bits of upper at a time: all sums stay exact below 2^53.
  const upperHigh = Math.floor(upper / 2 ** 20);
  const low = (upper - upperHigh * 2 ** 20) * 1e9 + digitsValue(bytes, middle, end);
  const carried = Math.floor(low / 2 ** 20);
  const rest = upperHigh * 1e9 + carried;
  const high = Math.floor(rest / 2 ** 12);
  halves[0] = (rest - high * 2 ** 12) * 2 ** 20 + (low - carried * 2 ** 20);
  halves[1] = high;
  return high < 2 ** 32;
}

function digitsValue(bytes: Uint8Array, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end; at++) value = value * 10 + (bytes[at] as number) - ZERO;
  return value;
}
