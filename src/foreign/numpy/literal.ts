/** The part of Python's literals that headers of arrays are made of, read as text: nothing is evaluated. */

/** An integer: a bigint where a number may not be exact. */
export type Integer = number | bigint;

/** A value of a header. */
export type Literal = string | boolean | Integer | LiteralTuple | LiteralList;

/** What stands in parentheses. */
export interface LiteralTuple {
  readonly tuple: readonly Literal[];
}

/** What stands in brackets. */
export interface LiteralList {
  readonly list: readonly Literal[];
}

const TEXT = /'[^'\\\n\r]*'|"[^"\\\n\r]*"/y;
const TRUTH = /(?:True|False)\b/y;
const INTEGER = /(?:0|[1-9]\d*)L?\b/y;

/** The longest number that is read: no shape has a longer one. */
const MAX_DIGITS = 20;

/** Numbers of so many digits are exact. */
const SAFE_DIGITS = 15;

/** How deep lists and tuples go: records within records have two levels each. */
const MAX_DEPTH = 32;

/**
 * The dictionary of a header: pairs in their order.
 *
 * @param hasLong whether integers may end in an L, as Python 2 wrote long ones
 * @returns undefined when the text is anything else
 */
export function parseDictionary(text: string, hasLong: boolean): [string, Literal][] | undefined {
  const tokens = new Tokens(text, hasLong);
  const pairs: [string, Literal][] = [];
  // To Python a line break before it would be the end of an empty line.
  if (!/^[ \t]*\{/.test(text) || !tokens.skip('{')) return undefined;
  while (!tokens.skip('}')) {
    const key = tokens.text();
    if (key === undefined || !tokens.skip(':')) return undefined;
    const value = readValue(tokens, MAX_DEPTH);
    if (value === undefined) return undefined;
    pairs.push([key, value]);
    if (tokens.skip(',')) continue;
    if (!tokens.skip('}')) return undefined;
    break;
  }
  return tokens.isAtEnd() ? pairs : undefined;
}

function readValue(tokens: Tokens, depth: number): Literal | undefined {
  if (depth === 0) return undefined;
  if (tokens.skip('[')) {
    const list = readItems(tokens, ']', depth);
    return list && { list: list.items };
  }
  if (tokens.skip('(')) {
    const tuple = readItems(tokens, ')', depth);
    // One value in parentheses is no tuple without a comma.
    const isTuple = tuple !== undefined && (tuple.hasComma || tuple.items.length !== 1);
    return isTuple ? { tuple: tuple.items } : undefined;
  }
  return tokens.text() ?? tokens.truth() ?? tokens.integer();
}

/** Values with commas between them, and perhaps one behind the last. */
function readItems(
  tokens: Tokens,
  end: string,
  depth: number,
): { readonly items: readonly Literal[]; readonly hasComma: boolean } | undefined {
  const items: Literal[] = [];
  let hasComma = false;
  while (!tokens.skip(end)) {
    if (items.length > 0 && !hasComma) return undefined;
    const item = readValue(tokens, depth - 1);
    if (item === undefined) return undefined;
    items.push(item);
    hasComma = tokens.skip(',');
  }
  return { items, hasComma };
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
