/** How many columns of a terminal a text takes, and cutting it to fit. */

import { eastAsianWidth } from 'get-east-asian-width';
import { PRINTABLE_ASCII } from './visible.js';

/** They are drawn over the character before them, or not at all. */
const NO_WIDTH = /^[\p{Mark}\p{Default_Ignorable_Code_Point}]/u;

/** A sign that is drawn as a picture because the character behind it says so. */
const PICTURE = /^\p{Extended_Pictographic}.*\u{fe0f}/u;

/** A flag is two letters of one column each. */
const FLAG = /^\p{Regional_Indicator}{2}/u;

/** Made when it is first needed: that takes some milliseconds. */
let graphemes: Intl.Segmenter | undefined;

/** What a reader takes for characters: pictures that are put together of several are one. */
function charactersOf(text: string): string[] {
  if (PRINTABLE_ASCII.test(text)) return [...text];
  graphemes ??= new Intl.Segmenter(undefined, { granularity: 'grapheme' });
  return Array.from(graphemes.segment(text), ({ segment }) => segment);
}

function widthOfCharacter(character: string): number {
  if (PRINTABLE_ASCII.test(character)) return 1;
  if (PICTURE.test(character) || FLAG.test(character)) return 2;
  return NO_WIDTH.test(character) ? 0 : eastAsianWidth(character.codePointAt(0) as number);
}

/** Columns that a text without control characters takes. */
export function widthOf(text: string): number {
  if (PRINTABLE_ASCII.test(text)) return text.length;
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

/** The text, or as much of its start as fits with a `…` behind it. */
export function cutEnd(text: string, width: number): string {
  return widthOf(text) <= width ? text : `${fittingStart(text, width - 1)}…`;
}

/** Lines that fit the terminal; all of them in a pipe, which has no width. */
export function cutLines(lines: readonly string[], width: number | null): readonly string[] {
  return width === null ? lines : lines.map((line) => cutEnd(line, width));
}

/** The text, or as much of both ends as fits with a `…` between them: names differ at their ends. */
export function cutMiddle(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  const tail = Math.floor((width - 1) / 2);
  return `${fittingStart(text, width - 1 - tail)}…${fittingEnd(text, tail)}`;
}
