/** Text from strangers, made harmless: what would control a terminal, or hide, is shown as an escape. */

/** Characters that take one column each, and are shown as they are. */
export const PRINTABLE_ASCII: RegExp = /^[\x20-\x7e]*$/;

/** Of a name, a key or a path from a file this many characters are shown, and of a value. */
export const SHOWN_NAME_LENGTH = 200;
export const SHOWN_VALUE_LENGTH = 500;

/**
 * Control characters, terminal escapes among them; controls of the writing direction, zero-width and other
 * invisible characters; separators of lines; lone surrogates.
 */
const UNSAFE_CHARACTERS = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

const SHORT: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

function visibleEscape(character: string): string {
  const short = SHORT[character];
  if (short !== undefined) return short;
  const code = (character.codePointAt(0) as number).toString(16);
  if (code.length <= 2) return `\\x${code.padStart(2, '0')}`;
  return code.length <= 4 ? `\\u${code.padStart(4, '0')}` : `\\u{${code}}`;
}

/**
 * The text on one line, with `\x1b` or `\u202e` for what must not reach a terminal. Backslashes of the text
 * stay as they are. Of more than `maxLength` characters it shows that many, and how many there are.
 */
export function visible(text: string, maxLength: number = Number.POSITIVE_INFINITY): string {
  if (text.length > maxLength) {
    return `${visible(text.slice(0, maxLength))}… (${text.length} characters)`;
  }
  return PRINTABLE_ASCII.test(text) ? text : text.replaceAll(UNSAFE_CHARACTERS, visibleEscape);
}

/**
 * JSON in which the same characters are escapes, as JSON has them: it says the same. Its own white space is ends of
 * lines and spaces: a return would write over its line.
 */
export function visibleJson(json: string): string {
  if (PRINTABLE_ASCII.test(json)) return json;
  return json.replaceAll(UNSAFE_CHARACTERS, (character) => {
    // Within strings JSON has them as escapes already.
    if (character === '\n') return character;
    if (character === '\r' || character === '\t') return ' ';
    return Array.from({ length: character.length }, (_, i) => unicodeEscape(character, i)).join('');
  });
}

function unicodeEscape(text: string, at: number): string {
  return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`;
}
