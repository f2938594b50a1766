/** Skips the values of ignored JSON fields; they must be valid JSON, too. */

import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  type JsonReader,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
} from './reader.js';

/** Containers that may be open at once, the outermost included: the reference's recursion limit. */
const MAX_JSON_DEPTH = 127;
/** An integer of so many digits is below 1e308 and therefore a finite double. */
const FINITE_DIGITS = 308;
/** A double's decimal expansion has no more significant digits than 767, halfway points included. */
const SIGNIFICANT_DIGITS = 800;
/** Caps exponents: no header has enough digits to make up for larger ones. */
const MAX_EXPONENT = 1e12;

const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LOWER_E = 0x65;

/** Consumes any value. `depth` is the number of containers that are open around it. */
export function skipValue(reader: JsonReader, depth: number): void {
  const byte = reader.peek();
  if (byte === QUOTE) reader.readString();
  else if (byte === OPEN_BRACKET) skipArray(reader, depth + 1);
  else if (byte === OPEN_BRACE) skipObject(reader, depth + 1);
  else if (byte === MINUS || (byte >= ZERO && byte <= NINE)) skipNumber(reader);
  else if (byte === 0x74) skipWord(reader, 'true');
  else if (byte === 0x66) skipWord(reader, 'false');
  else if (!skipNull(reader)) reader.fail('a JSON value');
}

/** Consumes `null` if it follows. */
export function skipNull(reader: JsonReader): boolean {
  if (reader.peek() !== 0x6e) return false;
  skipWord(reader, 'null');
  return true;
}

function skipArray(reader: JsonReader, depth: number): void {
  checkDepth(reader, depth);
  if (!reader.enter(CLOSE_BRACKET)) return;
  do {
    skipValue(reader, depth);
  } while (reader.hasNext(CLOSE_BRACKET));
}

function skipObject(reader: JsonReader, depth: number): void {
  checkDepth(reader, depth);
  if (!reader.enter(CLOSE_BRACE)) return;
  do {
    reader.readKey();
    skipValue(reader, depth);
  } while (reader.hasNext(CLOSE_BRACE));
}

function checkDepth(reader: JsonReader, depth: number): void {
  if (depth > MAX_JSON_DEPTH) reader.fail(`at most ${MAX_JSON_DEPTH} nested arrays and objects`);
}

function skipWord(reader: JsonReader, word: string): void {
  for (let i = 0; i < word.length; i++) {
    if (reader.bytes[reader.at + i] !== word.charCodeAt(i)) reader.fail('a JSON value');
  }
  reader.at += word.length;
}

function skipNumber(reader: JsonReader): void {
  const { bytes } = reader;
  const start = bytes[reader.at] === MINUS ? reader.at + 1 : reader.at;
  let at = digitsEnd(reader, start);
  const integerDigits = at - start;
  if (bytes[start] === ZERO && integerDigits > 1) reader.fail('a number without leading zeros');
  if (bytes[at] === DOT) at = digitsEnd(reader, at + 1);
  const hasExponent = ((bytes[at] ?? 0) | 0x20) === LOWER_E;
  if (hasExponent) {
    at++;
    if (bytes[at] === PLUS || bytes[at] === MINUS) at++;
    at = digitsEnd(reader, at);
  }
  if ((hasExponent || integerDigits > FINITE_DIGITS) && !isFiniteNumber(bytes, start, at)) {
    reader.fail('a number within the range of a double');
  }
  reader.at = at;
}

function digitsEnd(reader: JsonReader, start: number): number {
  const { bytes } = reader;
  const { length } = bytes;
  let at = start;
  while (at < length) {
    const byte = bytes[at] as number;
    if (byte < ZERO || byte > NINE) break;
    at++;
  }
  if (at === start) reader.failAt(at, 'a digit');
  return at;
}

/**
 * Whether the number between two positions, without its sign, is below the largest double. Takes linear time and
 * constant memory, so a number of 100 MB is safe.
 */
function isFiniteNumber(bytes: Uint8Array, start: number, end: number): boolean {
  let digits = '';
  // Power of ten of the last collected digit.
  let scale = 0;
  let isFraction = false;
  let at = start;
  for (; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === DOT) {
      isFraction = true;
      continue;
    }
    if (byte < ZERO || byte > NINE) break;
    const isCollected = digits.length < SIGNIFICANT_DIGITS && (digits !== '' || byte !== ZERO);
    if (isCollected) digits += String.fromCharCode(byte);
    if (isFraction && (isCollected || digits === '')) scale--;
    else if (!isFraction && !isCollected && digits !== '') scale++;
  }
  if (digits === '') return true;
  return Number.isFinite(Number(`${digits}e${scale + exponentAt(bytes, at, end)}`));
}

/** Value of the exponent that begins at `start` with `e`; 0 if absent. */
function exponentAt(bytes: Uint8Array, start: number, end: number): number {
  let exponent = 0;
  for (let at = start + 1; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === PLUS || byte === MINUS) continue;
    exponent = Math.min(exponent * 10 + byte - ZERO, MAX_EXPONENT);
  }
  return bytes[start + 1] === MINUS ? -exponent : exponent;
}
