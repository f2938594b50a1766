/** The part of Python's literals that headers of arrays are made of, read as text: nothing is evaluated. */

/** An integer: a bigint where a number may not be exact. */
export type Integer = number | bigint;

/** A value of a header; `null` stands for lists and tuples of other things, which describe records. */
export type Literal = string | boolean | readonly Integer[] | null;

const TEXT = /'[^'\\\n\r]*'|"[^"\\\n\r]*"/y;
const TRUTH = /(?:True|False)\b/y;
const INTEGER = /(?:0|[1-9]\d*)L?\b/y;

/** The longest number that is read: no shape has a longer one. */
const MAX_DIGITS = 20;

/** Numbers of so many digits are exact. */
const SAFE_DIGITS = 15;

/**
 * The dictionary of a header: pairs in their order.
 *
 * @param hasLong whether integers may end in an L, as Python 2 wrote long ones
 * @returns undefined when the text is anything else. A value that begins with a bracket ends the reading:
 *   records are not read, whatever they say.
 */
export function parseDictionary(text: string, hasLong: boolean): [string, Literal][] | undefined {
  const tokens = new Tokens(text, hasLong);
  const pairs: [string, Literal][] = [];
  // To Python a line break before it would be the end of an empty line.
  if (!/^[ \t]*\{/.test(text) || !tokens.skip('{')) return undefined;
  while (!tokens.skip('}')) {
    const key = tokens.text();
    if (key === undefined || !tokens.skip(':')) return undefined;
    const value = readValue(tokens);
    if (value === undefined) return undefined;
    pairs.push([key, value]);
    if (value === null) return pairs;
    if (tokens.skip(',')) continue;
    if (!tokens.skip('}')) return undefined;
    break;
  }
  return tokens.isAtEnd() ? pairs : undefined;
}

function readValue(tokens: Tokens): Literal | undefined {
  if (tokens.skip('[') || tokens.skip('{')) return null;
  if (tokens.skip('(')) return readTuple(tokens);
  return tokens.text() ?? tokens.truth();
}

/** Integers with commas between them and one behind a single one. */
function readTuple(tokens: Tokens): readonly Integer[] | undefined {
  const integers: Integer[] = [];
  if (tokens.skip(')')) return integers;
  for (;;) {
    const integer = tokens.integer();
    if (integer === undefined) return undefined;
    integers.push(integer);
    const hasComma = tokens.skip(',');
    if (tokens.skip(')')) return hasComma || integers.length > 1 ? integers : undefined;
    if (!hasComma) return undefined;
  }
}

/** A text cut into tokens, with blanks before each. */
class Tokens {
  readonly #text: string;
  readonly #hasLong: boolean;
  #at = 0;

  constructor(text: string, hasLong: boolean) {
    this.#text = text;
    this.#hasLong = hasLong;
  }

  /** Passes over a mark if it comes next. */
  skip(mark: string): boolean {
    this.#skipBlanks();
    if (this.#text[this.#at] !== mark) return false;
    this.#at++;
    return true;
  }

  /** The text in quotes that comes next; undefined when something else does. */
  text(): string | undefined {
    return this.#match(TEXT)?.slice(1, -1);
  }

  /** True or False, likewise. */
  truth(): boolean | undefined {
    const found = this.#match(TRUTH);
    return found === undefined ? undefined : found === 'True';
  }

  /** The integer that comes next, likewise. */
  integer(): Integer | undefined {
    const found = this.#match(INTEGER);
    const isLong = found?.endsWith('L') === true;
    const digits = isLong ? found.slice(0, -1) : found;
    if (digits === undefined || digits.length > MAX_DIGITS) return undefined;
    if (isLong && !this.#hasLong) return undefined;
    return digits.length <= SAFE_DIGITS ? Number(digits) : BigInt(digits);
  }

  /** Whether nothing but blanks is left. */
  isAtEnd(): boolean {
    this.#skipBlanks();
    return this.#at === this.#text.length;
  }

  #match(token: RegExp): string | undefined {
    this.#skipBlanks();
    const begin = this.#at;
    token.lastIndex = begin;
    if (!token.test(this.#text)) return undefined;
    this.#at = token.lastIndex;
    return this.#text.slice(begin, this.#at);
  }

  #skipBlanks(): void {
    for (;;) {
      const next = this.#text[this.#at];
      if (next !== ' ' && next !== '\t' && next !== '\n') return;
      this.#at++;
    }
  }
}
