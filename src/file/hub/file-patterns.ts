/**
 * Patterns of file names, as Python's `fnmatchcase` reads them, which the Hub's Python library uses: `*` stands for any
 * characters, also `/`, `?` for one, `[a-z]` for one of a set, `[!a-z]` for one that is not in it.
 */

import type { NameTest } from './module-patterns.js';

/** Whether one character is the wanted one. */
type CharacterTest = (character: string) => boolean;

/** Patterns that choose files, and patterns that leave files out. */
export interface FilePatterns {
  /** Undefined means all files, an empty list none. */
  readonly files?: string | readonly string[] | undefined;
  readonly ignore?: string | readonly string[] | undefined;
}

/** A test of paths: those that match one of `files` and none of `ignore`. A pattern for a folder ends with `/`. */
export function filesTest({ files, ignore = [] }: FilePatterns): NameTest {
  const taken = files === undefined ? undefined : [files].flat().map(patternTest);
  const left = [ignore].flat().map(patternTest);
  return (path) => {
    const name = withSlashes(path);
    const isTaken = taken === undefined || taken.some((matches) => matches(name));
    return isTaken && !left.some((matches) => matches(name));
  };
}

/** Windows separates folders by backslashes. */
function withSlashes(text: string): string {
  return text.replaceAll('\\', '/');
}

/** A test of whole paths. Takes no more steps than the product of both lengths. */
function patternTest(given: string): NameTest {
  const pattern = withSlashes(given);
  const [start = [], ...middle] = partsOf(pattern.endsWith('/') ? `${pattern}*` : pattern);
  const end = middle.pop();
  return (path) => {
    // Python counts code points.
    const name = [...path];
    if (end === undefined) return name.length === start.length && isAt(name, start, 0);
    const last = name.length - end.length;
    if (start.length > last || !isAt(name, start, 0) || !isAt(name, end, last)) return false;
    let at = start.length;
    for (const part of middle) {
      while (at + part.length <= last && !isAt(name, part, at)) at++;
      at += part.length;
    }
    return at <= last;
  };
}

function isAt(name: readonly string[], part: readonly CharacterTest[], at: number): boolean {
  return part.every((matches, i) => {
    const character = name[at + i];
    return character !== undefined && matches(character);
  });
}

/** The parts of a pattern between its `*`. */
function partsOf(text: string): CharacterTest[][] {
  const pattern = [...text];
  let part: CharacterTest[] = [];
  const parts = [part];
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern[at] as string;
    const end = character === '[' ? endOfSet(pattern, at + 1) : -1;
    if (character === '*') {
      part = [];
      parts.push(part);
    } else if (end !== -1) {
      part.push(setTest(pattern.slice(at + 1, end)));
      at = end;
    } else {
      part.push(character === '?' ? () => true : (found) => found === character);
    }
  }
  return parts;
}

/** The place of the `]` that ends a set; -1 if the `[` is a plain character. A `]` at its start belongs to the set. */
function endOfSet(pattern: readonly string[], begin: number): number {
  const first = pattern[begin] === '!' ? begin + 1 : begin;
  return pattern.indexOf(']', pattern[first] === ']' ? first + 1 : first);
}

/** A test of one character, for the text between brackets. */
function setTest(text: readonly string[]): CharacterTest {
  const chunks = rangesOf(text);
  const isNegated = chunks[0]?.[0] === '!';
  if (isNegated) chunks[0]?.shift();
  const characters = new Set(chunks.flat());
  const ranges: [from: number, to: number][] = [];
  for (const [i, next] of chunks.slice(1).entries()) {
    const from = chunks[i]?.at(-1);
    // The `!` was in front of the hyphen, which then means itself.
    if (from === undefined) characters.add('-');
    else ranges.push([codeOf(from), codeOf(next[0] as string)]);
  }
  return (character) => {
    const code = codeOf(character);
    const isIn =
      characters.has(character) || ranges.some(([from, to]) => from <= code && code <= to);
    return isIn !== isNegated;
  };
}

function codeOf(character: string): number {
  return character.codePointAt(0) as number;
}

/**
 * Cuts the text of a set at the hyphens of its ranges: each goes from the last character of a chunk to the first of the
 * next. A range without characters, such as `z-a`, is removed as Python does it: with its ends, so that their
 * neighbours are joined.
 */
function rangesOf(text: readonly string[]): string[][] {
  const chunks: string[][] = [];
  let begin = 0;
  let hyphen = text.indexOf('-', text[0] === '!' ? 2 : 1);
  while (hyphen !== -1) {
    chunks.push(text.slice(begin, hyphen));
    begin = hyphen + 1;
    hyphen = text.indexOf('-', hyphen + 3);
  }
  const rest = text.slice(begin);
  if (rest.length > 0 || chunks.length === 0) chunks.push(rest);
  else chunks.at(-1)?.push('-');
  for (let i = chunks.length - 1; i > 0; i--) {
    const [before, after] = [chunks[i - 1], chunks[i]] as [string[], string[]];
    if (codeOf(before.at(-1) as string) <= codeOf(after[0] as string)) continue;
    before.pop();
    before.push(...after.slice(1));
    chunks.splice(i, 1);
  }
  return chunks;
}
