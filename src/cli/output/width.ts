/** How many columns of a terminal a text takes, and cutting it to fit. */

const PLAIN = /^[\x20-\x7e]*$/;

/** Characters of East Asian scripts, and pictures, take two columns. */
const WIDE =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{1f300}-\u{1f64f}\u{1f680}-\u{1f6ff}\u{1f900}-\u{1f9ff}\u{20000}-\u{3fffd}]/u;

/** They are drawn over the character before them. */
const COMBINING = /^\p{Mark}/u;

function widthOfCharacter(character: string): number {
  if (PLAIN.test(character)) return 1;
  if (COMBINING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** Columns that a text without control characters takes. */
export function widthOf(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

/** The longest start of the text that fits. */
function startOf(text: string, width: number): string {
  let taken = '';
  let left = width;
  for (const character of text) {
    left -= widthOfCharacter(character);
    if (left < 0) break;
    taken += character;
  }
  return taken;
}

/** The longest end of the text that fits. */
function endOf(text: string, width: number): string {
  const characters = [...text];
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
  return widthOf(text) <= width ? text : `${startOf(text, width - 1)}…`;
}

/** Lines that fit the terminal; all of them in a pipe, which has no width. */
export function cutLines(lines: readonly string[], width: number | null): readonly string[] {
  return width === null ? lines : lines.map((line) => cutEnd(line, width));
}

/** The text, or as much of both ends as fits with a `…` between them: names differ at their ends. */
export function cutMiddle(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  const tail = Math.floor((width - 1) / 2);
  return `${startOf(text, width - 1 - tail)}…${endOf(text, tail)}`;
}
