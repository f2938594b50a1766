/** Makes text from strangers harmless: escapes characters that control a terminal or are invisible. */

/** Characters of one column that need no escape. */
export const PRINTABLE_ASCII: RegExp = /^[\x20-\x7e]*$/;

/** Most shown characters of a name, key or path from a file, and of a value. */
export const SHOWN_NAME_LENGTH = 200;
export const SHOWN_VALUE_LENGTH = 500;

/**
 * Control characters, terminal escapes among them; controls of the writing direction, zero-width and other
 * invisible characters; separators of lines; lone surrogates.
 */
const UNSAFE_CHARACTERS = '[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Zl}\\p{Zp}\\p{Default_Ignorable_Code_Point}]';

/** Created on first use: collecting the characters of the properties takes most of a millisecond. */
let unsafeCharacters: RegExp | undefined;

/** Replaces each unsafe character by what `replacer` returns for it. */
function replaceUnsafe(text: string, replacer: (character: string) => string): string {
  unsafeCharacters ??= new RegExp(UNSAFE_CHARACTERS, 'gu');
  return text.replaceAll(unsafeCharacters, replacer);
}

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function visibleEscape(character: string): string {
  const short = SHORT[character];
  if (short !== undefined) return short;
  const code = (character.codePointAt(0) as number).toString(16);
  if (code.length <= 2) return `\\x${code.padStart(2, '0')}`;
  return code.length <= 4 ? `\\u${code.padStart(4, '0')}` : `\\u{${code}}`;
}

/**
 * The text on one line, with escapes such as `\x1b` and `\u202e`. Leaves backslashes unchanged. Cuts the text at
 * `maxLength` characters and tells its length.
 */
export function visible(text: string, maxLength: number = Number.POSITIVE_INFINITY): string {
  if (text.length > maxLength) {
    return `${visible(text.slice(0, maxLength))}… (${text.length} characters)`;
  }
  return PRINTABLE_ASCII.test(text) ? text : replaceUnsafe(text, visibleEscape);
}

/**
 * Equivalent JSON with the same characters as JSON escapes. Of white space between values it keeps ends of lines and
 * spaces: a carriage return would overwrite its line.
 */
export function visibleJson(json: string): string {
  if (PRINTABLE_ASCII.test(json)) return json;
  return replaceUnsafe(json, (character) => {
    // JSON already escapes them within strings.
    if (character === '\n') return character;
    if (character === '\r' || character === '\t') return ' ';
    return Array.from({ length: character.length }, (_, i) => unicodeEscape(character, i)).join('');
  });
}

function unicodeEscape(text: string, at: number): string {
  return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`;
}
