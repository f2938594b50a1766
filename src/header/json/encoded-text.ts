/** Joins long texts as UTF-8, from strings and from UTF-8 bytes. */

import type { Text } from './strings.js';

/** UTF-16 units that are encoded at once. Encoding one string for a million tensors costs many times as much. */
const PIECE_LENGTH = 2 ** 16;

/** UTF-8 takes at most three bytes per UTF-16 unit. */
export const UTF8_BYTES_PER_UNIT = 3;

/**
 * Shorter parts are copied in words: `set` needs a new view of the source, which the engine collects later.
 * Measured: 60 bytes take 31 ns in words and 58 with a view, 200 bytes 75 and 39.
 */
const LONG_BYTE_LENGTH = 128;

const ZERO = 0x30;

const encoder = new TextEncoder();

/** A text in a buffer that grows. */
export class EncodedText {
  readonly #onGrowth: ((byteLength: number) => void) | undefined;
  #bytes: Uint8Array<ArrayBuffer>;
  #view: DataView;
  #byteLength = 0;
  /** Appended text that is not encoded yet. */
  #text = '';

  /** Calls `onGrowth` with the length in bytes whenever the buffer grows or text was encoded; it may throw. */
  constructor(onGrowth?: (byteLength: number) => void, expectedByteLength = 1024) {
    this.#onGrowth = onGrowth;
    this.#bytes = new Uint8Array(expectedByteLength);
    this.#view = new DataView(this.#bytes.buffer);
  }

  /** Appends well-formed text. */
  append(text: string): void {
    this.#text += text;
    if (this.#text.length >= PIECE_LENGTH) this.#flush();
  }

  /** Appends the bytes [begin, end) of a text; all by default. */
  appendPart({ bytes, view }: Text, begin = 0, end: number = bytes.length): void {
    this.#flush();
    this.#reserve(end - begin);
    const start = this.#byteLength;
    this.#byteLength = start + end - begin;
    if (end - begin >= LONG_BYTE_LENGTH) {
      this.#bytes.set(bytes.subarray(begin, end), start);
      return;
    }
    let from = begin;
    let at = start;
    for (; from <= end - 4; from += 4, at += 4) {
      this.#view.setInt32(at, view.getInt32(from, true), true);
    }
    for (; from < end; from++, at++) this.#bytes[at] = bytes[from] as number;
  }

  /** Appends an integer from 0 to 2^53 - 1 in decimal. */
  appendInteger(value: number): void {
    this.#flush();
    const digits = digitCount(value);
    this.#reserve(digits);
    const bytes = this.#bytes;
    let at = this.#byteLength + digits - 1;
    let rest = value;
    for (; rest >= 2 ** 31; at--) {
      const next = Math.floor(rest / 10);
      bytes[at] = ZERO + (rest - next * 10);
      rest = next;
    }
    // Integers of 32 bits are divided faster.
    for (; at >= this.#byteLength; at--) {
      const next = (rest / 10) | 0;
      bytes[at] = ZERO + (rest - next * 10);
      rest = next;
    }
    this.#byteLength += digits;
  }

  /** Length in bytes. */
  get byteLength(): number {
    this.#flush();
    return this.#byteLength;
  }

  /** Copies all bytes to the start of `target`, which has room for them. */
  copyTo(target: Uint8Array): void {
    this.#flush();
    target.set(this.#bytes.subarray(0, this.#byteLength));
  }

  /** All bytes. Append nothing afterwards. */
  encoded(): Uint8Array {
    this.#flush();
    return this.#bytes.subarray(0, this.#byteLength);
  }

  #flush(): void {
    if (this.#text === '') return;
    this.#reserve(this.#text.length * UTF8_BYTES_PER_UNIT);
    const { written } = encoder.encodeInto(this.#text, this.#bytes.subarray(this.#byteLength));
    this.#byteLength += written;
    this.#text = '';
    this.#onGrowth?.(this.#byteLength);
  }

  /** Makes room for so many bytes. */
  #reserve(byteLength: number): void {
    const needed = this.#byteLength + byteLength;
    if (needed <= this.#bytes.length) return;
    this.#onGrowth?.(this.#byteLength);
    const bytes = new Uint8Array(Math.max(needed, 2 * this.#bytes.length));
    bytes.set(this.#bytes.subarray(0, this.#byteLength));
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer);
  }
}

function digitCount(value: number): number {
  let count = 1;
  for (let limit = 10; value >= limit; limit *= 10) count++;
  return count;
}
