/** The part of Python's literals that headers of arrays are made of, read as text: nothing is evaluated. */

/** A value of a header; `null` stands for lists and tuples of other things, which describe records. */
export type Literal = string | boolean | readonly bigint[] | null;

/** One token and the blanks before it. */
const TOKEN =
  /[ \t\n]*(?:([{}():,[\]])|'([^'\\\n\r]*)'|"([^"\\\n\r]*)"|(True|False)\b|(0|[1-9]\d*)(L?)\b)/y;

/** The longest number that is read: no shape has a longer one. */
const MAX_DIGITS = 20;

/** One token. */
type Token =
  | { readonly mark: string }
  | { readonly text: string }
  | { readonly truth: boolean }
  | { readonly integer: bigint };

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
    const key = tokens.next();
    if (key === undefined || !('text' in key) || !tokens.skip(':')) return undefined;
    const value = readValue(tokens);
    if (value === undefined) return undefined;
    pairs.push([key.text, value]);
    if (value === null) return pairs;
    if (tokens.skip(',')) continue;
    if (!tokens.skip('}')) return undefined;
    break;
  }
  return tokens.isAtEnd() ? pairs : undefined;
}

function readValue(tokens: Tokens): Literal | undefined {
  const token = tokens.next();
  if (token === undefined || 'integer' in token) return undefined;
  if ('text' in token) return token.text;
  if ('truth' in token) return token.truth;
  if (token.mark === '[' || token.mark === '{') return null;
  return token.mark === '(' ? readTuple(tokens) : undefined;
}

/** Integers with commas between them and one behind a single one. */
function readTuple(tokens: Tokens): readonly bigint[] | undefined {
  const integers: bigint[] = [];
  if (tokens.skip(')')) return integers;
  for (;;) {
    const token = tokens.next();
    if (token === undefined || !('integer' in token)) return undefined;
    integers.push(token.integer);
    const hasComma = tokens.skip(',');
    if (tokens.skip(')')) return hasComma || integers.length > 1 ? integers : undefined;
    if (!hasComma) return undefined;
  }
}

/** A text cut into tokens. */
class Tokens {
  readonly #text: string;
  readonly #hasLong: boolean;
  #at = 0;

  constructor(text: string, hasLong: boolean) {
    this.#text = text;
    this.#hasLong = hasLong;
  }

  /** The next token; undefined when there is none, or something else. */
  next(): Token | undefined {
    TOKEN.lastIndex = this.#at;
    const found = TOKEN.exec(this.#text);
    if (found === null) return undefined;
    this.#at = TOKEN.lastIndex;
    const [, mark, single, double, truth, digits, long] = found;
    if (mark !== undefined) return { mark };
    if (truth !== undefined) return { truth: truth === 'True' };
    if (digits === undefined) return { text: single ?? double ?? '' };
    const isInteger = digits.length <= MAX_DIGITS && (this.#hasLong || long === '');
    return isInteger ? { integer: BigInt(digits) } : undefined;
  }

  /** Passes over a mark if it comes next. */
  skip(mark: string): boolean {
    const before = this.#at;
    const token = this.next();
    if (token !== undefined && 'mark' in token && token.mark === mark) return true;
    this.#at = before;
    return false;
  }

  /** Whether nothing but blanks is left. */
  isAtEnd(): boolean {
    return /^[ \t\n]*$/.test(this.#text.slice(this.#at));
  }
}
