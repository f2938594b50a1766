/** Measures text in columns of a terminal, and cuts it to fit. */

import { eastAsianWidth } from 'get-east-asian-width';
import { PRINTABLE_ASCII } from './visible.js';

/** Characters without a width: drawn over the previous one, or not at all. */
const NO_WIDTH = '^[\\p{Mark}\\p{Default_Ignorable_Code_Point}]';

/** A sign with the selector for drawing it as a picture, or the letters of a flag, which take one column each. */
const TWO_COLUMNS = '^(?:\\p{Extended_Pictographic}.*\\u{fe0f}|\\p{Regional_Indicator}{2})';

/** Created on first use: collecting the characters of the properties takes most of a millisecond. */
let patterns: Readonly<Record<'noWidth' | 'twoColumns', RegExp>> | undefined;

/**
 * Characters that never combine with each other: Latin, Greek, Cyrillic, Armenian, punctuation, symbols, Chinese,
 * Japanese and Korean. Splitting them needs no segmenter, which takes a microsecond per character.
 */
const SEPARATE =
  '\\x20-\\x7e\\xa1-\\xac\\xae-\\u02ff\\u0370-\\u0482\\u048a-\\u0556\\u2010-\\u2027\\u2030-\\u205e\\u2190-\\u23ff' +
  '\\u2500-\\u25ff\\u3001-\\u3029\\u3041-\\u3096\\u309b-\\u30ff\\u3400-\\u4dbf\\u4e00-\\u9fff\\uac00-\\ud7a3\\uff01-\\uff5e';
const SEPARATE_TEXT = new RegExp(`^[${SEPARATE}]*$`);
/** As above, and accents, which have no width. */
const ACCENTED_TEXT = new RegExp(`^[${SEPARATE}\\u0300-\\u034e\\u0350-\\u036f]*$`);

/** Created on first use, which takes some milliseconds. */
let graphemes: Intl.Segmenter | undefined;

/** Characters as readers see them: composed pictures count as one. */
function charactersOf(text: string): string[] {
  if (SEPARATE_TEXT.test(text)) return [...text];
  graphemes ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return Array.from(graphemes.segment(text), ({ segment }) => segment);
}

/** Widths of UTF-16 units that are whole characters, plus 1; 0 for those not computed yet. */
let unitWidths: Uint8Array | undefined;

function widthOfUnits(text: string): number {
  unitWidths ??= new Uint8Array(2 ** 16);
  let sum = 0;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    let width = unitWidths[unit] as number;
    if (width === 0) {
      width = widthOfCharacter(text.charAt(i)) + 1;
      unitWidths[unit] = width;
    }
    sum += width - 1;
  }
  return sum;
}

function widthOfCharacter(character: string): number {
  if (PRINTABLE_ASCII.test(character)) return 1;
  patterns ??= { noWidth: new RegExp(NO_WIDTH, 'u'), twoColumns: new RegExp(TWO_COLUMNS, 'u') };
  if (patterns.twoColumns.test(character)) return 2;
  return patterns.noWidth.test(character) ? 0 : eastAsianWidth(character.codePointAt(0) as number);
}

/** Columns of a text without control characters. */
export function widthOf(text: string): number {
  if (PRINTABLE_ASCII.test(text)) return text.length;
  if (ACCENTED_TEXT.test(text)) return widthOfUnits(text);
  return charactersOf(text).reduce((sum, character) => sum + widthOfCharacter(character), 0);
}

/** The longest start of the text that fits. */
function fittingStart(text: string, width: number): string {
  let taken = '';
  let left = width;
  for (const character of charactersOf(text)) {
    left -= widthOfCharacter(character);
    if (left < 0) break;
    taken += character;
  }
  return taken;
}

/** The longest end of the text that fits. */
function fittingEnd(text: string, width: number): string {
  const characters = charactersOf(text);
  let at = characters.length;
  let left = width;
  while (at > 0) {
    left -= widthOfCharacter(characters[at - 1] as string);
    if (left < 0) break;
    at--;
  }
  return characters.slice(at).join('');
}

/** The text, cut at its end with a `…` to fit. */
export function cutEnd(text: string, width: number): string {
  return widthOf(text) <= width ? text : `${fittingStart(text, width - 1)}…`;
}

/** Lines that fit the terminal; all of them in a pipe, which has no width. */
export function cutLines(lines: readonly string[], width: number | null): readonly string[] {
  return width === null ? lines : lines.map((line) => cutEnd(line, width));
}

/** The text, cut in its middle with a `…` to fit: names differ at their ends. */
export function cutMiddle(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  const tail = Math.floor((width - 1) / 2);
  return `${fittingStart(text, width - 1 - tail)}…${fittingEnd(text, tail)}`;
}
