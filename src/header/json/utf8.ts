/** Strict UTF-8 (RFC 3629): no overlong forms, no surrogates, nothing above U+10FFFF. */
import { type ErrorContext, FormatError, type FormatErrorCode } from '../../errors/errors.js';
import type { Work } from '../../work/work.js';

/** The noun for a text in messages, and the codes of its errors. */
export interface TextKind {
  readonly noun: string;
  readonly syntaxCode: FormatErrorCode;
  readonly utf8Code: FormatErrorCode;
}

/** The header of a file. */
export const HEADER_TEXT: TextKind = {
  noun: 'header',
  syntaxCode: 'SAFETENSORS_INVALID_HEADER_DESERIALIZATION',
  utf8Code: 'SAFETENSORS_INVALID_HEADER_UTF8',
};

/**
 * Checks the sequence of two to four bytes that begins at `at` with a byte of 0x80 or more, and
 * returns the position after it; -1 when it is not valid UTF-8 or is cut off by the end.
 */
export function sequenceEnd(bytes: Uint8Array, at: number): number {
  const lead = bytes[at] as number;
  // The range of the second byte rules out overlong forms, surrogates and U+110000.
  let lowest = 0x80;
  let highest = 0xbf;
  let length = 2;
  if (lead < 0xc2 || lead > 0xf4) return -1;
  if (lead >= 0xf0) {
    length = 4;
    if (lead === 0xf0) lowest = 0x90;
    else if (lead === 0xf4) highest = 0x8f;
  } else if (lead >= 0xe0) {
    length = 3;
    if (lead === 0xe0) lowest = 0xa0;
    else if (lead === 0xed) highest = 0x9f;
  }
  const end = at + length;
  if (end > bytes.length) return -1;
  const second = bytes[at + 1] as number;
  if (second < lowest || second > highest) return -1;
  for (let i = at + 2; i < end; i++) {
    if (((bytes[i] as number) & 0xc0) !== 0x80) return -1;
  }
  return end;
}

/** Position of the first byte that is not part of valid UTF-8; -1 when all bytes are valid. */
function findInvalidUtf8(bytes: Uint8Array): number {
  const { length } = bytes;
  const view = new DataView(bytes.buffer, bytes.byteOffset, length);
  let at = 0;
  while (at < length) {
    while (at + 4 <= length && (view.getInt32(at) & 0x80808080) === 0) at += 4;
    if (at === length) break;
    if ((bytes[at] as number) < 0x80) {
      at++;
      continue;
    }
    const end = sequenceEnd(bytes, at);
    if (end === -1) return at;
    at = end;
  }
  return -1;
}

/**
 * Throws the kind's `utf8Code` (`SAFETENSORS_INVALID_HEADER_UTF8`) when the bytes are not UTF-8. `before`
 * begins the message.
 */
export function checkUtf8(
  bytes: Uint8Array,
  context: ErrorContext,
  before = '',
  { noun, utf8Code }: TextKind = HEADER_TEXT,
): void {
  const at = findInvalidUtf8(bytes);
  if (at === -1) return;
  throw new FormatError(
    utf8Code,
    `${before}expected UTF-8, found ${describeByte(bytes, at, noun)} at ${noun} byte ${at}`,
    context,
  );
}

/** U+FEFF in UTF-8. JSON forbids it at the start of a text; Windows editors write it. */
export const BYTE_ORDER_MARK: readonly number[] = [0xef, 0xbb, 0xbf];

/** Whether a text begins with the byte order mark of UTF-8. */
export function hasByteOrderMark(bytes: Uint8Array): boolean {
  return BYTE_ORDER_MARK.every((byte, i) => bytes[i] === byte);
}

/** Describes a byte of a text in a message. */
export function describeByte(
  bytes: Uint8Array,
  at: number,
  noun: string = HEADER_TEXT.noun,
): string {
  const byte = bytes[at];
  if (byte === undefined) return `the end of the ${noun}`;
  if (at === 0) {
    if (hasByteOrderMark(bytes)) return 'a byte order mark';
    // FF FE or FE FF: U+FEFF in either byte order.
    if (byte >= 0xfe && byte + (bytes[1] ?? 0) === 0x1fd) return 'the byte order mark of UTF-16';
  }
  if (byte > 0x20 && byte < 0x7f) return `"${String.fromCharCode(byte)}"`;
  return `byte 0x${byte.toString(16).padStart(2, '0')}`;
}

/** Bytes of a text that are decoded at a time. */
const DECODED_BYTE_LENGTH = 2 ** 20;

/** Decodes a text whose bytes were checked. Not as a stream: Node 20 and 22 take twice the time for one. */
export function* utf8Text(bytes: Uint8Array): Work<string> {
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let text = '';
  for (let begin = 0, end: number; begin < bytes.length; begin = end) {
    yield;
    end = characterBegin(bytes, begin + DECODED_BYTE_LENGTH);
    text += decoder.decode(bytes.subarray(begin, end));
  }
  return text;
}

/** Where the character begins whose bytes include that at `at`; the length of the text after its end. */
function characterBegin(bytes: Uint8Array, at: number): number {
  let begin = Math.min(at, bytes.length);
  while (((bytes[begin] ?? 0) & 0xc0) === 0x80) begin--;
  return begin;
}
