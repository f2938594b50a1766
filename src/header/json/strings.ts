/**
 * Compares and decodes JSON strings in place. A position is that of the first byte after the opening quote; the
 * string was checked before.
 */

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const LETTER_U = 0x75;

/** 1 for bytes that a string contains literally. */
export const PLAIN_BYTES: Uint8Array = new Uint8Array(256).fill(1, 0x20, 0x80);
PLAIN_BYTES[QUOTE] = 0;
PLAIN_BYTES[BACKSLASH] = 0;

// A byte order mark at the start of a name is part of the name.
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Whether a UTF-16 unit is the first half of a pair. */
export function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** Whether a UTF-16 unit is the second half of a pair. */
export function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/** UTF-16 unit of the escape whose backslash stands at `at`; -1 when it is no valid escape. */
export function escapedUnit(bytes: Uint8Array, at: number): number {
  if (bytes[at] !== BACKSLASH) return -1;
  switch (bytes[at + 1]) {
    case QUOTE:
      return QUOTE;
    case BACKSLASH:
      return BACKSLASH;
    case 0x2f:
      return 0x2f;
    case 0x62:
      return 0x08;
    case 0x66:
      return 0x0c;
    case 0x6e:
      return 0x0a;
    case 0x72:
      return 0x0d;
    case 0x74:
      return 0x09;
    case LETTER_U:
      return hexUnit(bytes, at + 2);
    default:
      return -1;
  }
}

function hexUnit(bytes: Uint8Array, start: number): number {
  let unit = 0;
  for (let at = start; at < start + 4; at++) {
    const byte = bytes[at] ?? 0;
    const letter = byte | 0x20;
    if (byte >= 0x30 && byte <= 0x39) unit = unit * 16 + byte - 0x30;
    else if (letter >= 0x61 && letter <= 0x66) unit = unit * 16 + letter - 0x57;
    else return -1;
  }
  return unit;
}

/** Decodes a string byte by byte: escapes become the UTF-8 that they stand for. */
export class StringBytes {
  readonly #bytes: Uint8Array;
  #at: number;
  // The bytes that are left of an escape's UTF-8, the next one lowest.
  #pending = 0;
  #pendingCount = 0;

  /** Begins at any position of a string that is not inside an escape. */
  constructor(bytes: Uint8Array, at: number) {
    this.#bytes = bytes;
    this.#at = at;
  }

  /** The next byte; -1 at the closing quote. */
  next(): number {
    if (this.#pendingCount > 0) {
      const byte = this.#pending & 0xff;
      this.#pending >>>= 8;
      this.#pendingCount--;
      return byte;
    }
    const byte = this.#bytes[this.#at] as number;
    if (byte === QUOTE) return -1;
    if (byte !== BACKSLASH) {
      this.#at++;
      return byte;
    }
    return this.#nextEscape();
  }

  #nextEscape(): number {
    const bytes = this.#bytes;
    let point = escapedUnit(bytes, this.#at);
    this.#at += bytes[this.#at + 1] === LETTER_U ? 6 : 2;
    if (isHighSurrogate(point)) {
      const low = escapedUnit(bytes, this.#at);
      point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
      this.#at += 6;
    }
    if (point < 0x80) return point;
    const last = 0x80 | (point & 0x3f);
    const third = 0x80 | ((point >>> 6) & 0x3f);
    if (point < 0x800) return this.#keep(0xc0 | (point >>> 6), last, 1);
    if (point < 0x10000) return this.#keep(0xe0 | (point >>> 12), third | (last << 8), 2);
    const second = 0x80 | ((point >>> 12) & 0x3f);
    return this.#keep(0xf0 | (point >>> 18), second | (third << 8) | (last << 16), 3);
  }

  #keep(first: number, pending: number, count: number): number {
    this.#pending = pending;
    this.#pendingCount = count;
    return first;
  }
}

/**
 * Compares the decoded bytes of two strings: negative, 0 or positive. UTF-8 bytes sort as code points
 * do; this is the reference's order, unlike that of JavaScript's `<`.
 */
export function compareStrings(
  leftBytes: Uint8Array,
  leftStart: number,
  rightBytes: Uint8Array,
  rightStart: number,
): number {
  let left = leftStart;
  let right = rightStart;
  for (; ; left++, right++) {
    const a = leftBytes[left] as number;
    const b = rightBytes[right] as number;
    if (a === BACKSLASH || b === BACKSLASH) break;
    if (a === QUOTE || b === QUOTE) return a === b ? 0 : a === QUOTE ? -1 : 1;
    if (a !== b) return a - b;
  }
  const leftRest = new StringBytes(leftBytes, left);
  const rightRest = new StringBytes(rightBytes, right);
  for (;;) {
    const a = leftRest.next();
    const b = rightRest.next();
    if (a !== b) return a - b;
    if (a === -1) return 0;
  }
}

/** A text, and a view of the same memory that reads four bytes at once. */
export interface Text {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

/** A string as UTF-8. */
export function encodeText(text: string): Text {
  const bytes = new TextEncoder().encode(text);
  return { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength) };
}

/** As `compareStrings`; faster for strings that begin with the same bytes. */
export function compareJsonStrings(
  left: Text,
  leftStart: number,
  right: Text,
  rightStart: number,
): number {
  const end = Math.min(left.bytes.length - leftStart, right.bytes.length - rightStart) - 4;
  let at = 0;
  for (; at <= end; at += 4) {
    const word = left.view.getInt32(leftStart + at, true);
    // Zero where there is a quote, or a backslash.
    const unquoted = word ^ 0x22222222;
    const unescaped = word ^ 0x5c5c5c5c;
    // Each number has the highest bit of such a byte set.
    const quoted = (unquoted - 0x01010101) & ~unquoted;
    const escaped = (unescaped - 0x01010101) & ~unescaped;
    const isEnd = ((quoted | escaped) & 0x80808080) !== 0;
    if (isEnd || word !== right.view.getInt32(rightStart + at, true)) break;
  }
  return compareStrings(left.bytes, leftStart + at, right.bytes, rightStart + at);
}

/** Position of the closing quote of a string without escapes; -1 when it has some. */
export function unescapedEnd(bytes: Uint8Array, start: number): number {
  for (let at = start; ; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) return at;
    if (byte === BACKSLASH) return -1;
  }
}

/** Position of the closing quote of a string of printable ASCII without escapes; -1 for other strings. */
export function printableEnd({ bytes, view }: Text, start: number): number {
  const wordsEnd = bytes.length - 4;
  let at = start;
  for (; at <= wordsEnd; at += 4) {
    // The first byte of another kind sets its highest bit in one of these numbers.
    const word = view.getInt32(at, true);
    const unquoted = (word ^ 0x22222222) - 0x01010101;
    const unescaped = (word ^ 0x5c5c5c5c) - 0x01010101;
    const others = word | (word - 0x20202020) | (word + 0x01010101) | unquoted | unescaped;
    if ((others & ~0x7f7f7f7f) !== 0) break;
  }
  for (; ; at++) {
    const byte = bytes[at] as number;
    if (byte === QUOTE) return at;
    if (byte < 0x20 || byte > 0x7e || byte === BACKSLASH) return -1;
  }
}

/** A string without escapes. */
interface UnescapedString {
  readonly text: string;
  /** Position of its closing quote. */
  readonly end: number;
}

/**
 * Decodes a string without escapes; undefined for one that has some. Of a string of megabytes, native searches take a
 * fifth of the time of a loop.
 */
export function decodeUnescaped(bytes: Uint8Array, start: number): UnescapedString | undefined {
  const end = bytes.indexOf(QUOTE, start);
  const text = decoder.decode(bytes.subarray(start, end));
  return text.includes('\\') ? undefined : { text, end };
}

/** Text of a string. */
export function decodeString(bytes: Uint8Array, start: number): string {
  let end = start;
  let hasEscape = false;
  for (let byte = bytes[end]; byte !== QUOTE; byte = bytes[end]) {
    if (byte === BACKSLASH) hasEscape = true;
    end += byte === BACKSLASH ? 2 : 1;
  }
  const text = decoder.decode(bytes.subarray(start, end));
  return hasEscape ? (JSON.parse(`"${text}"`) as string) : text;
}
