/** Reads the Python literals of array headers as text. Evaluates nothing. */

/** An integer: a bigint where a number may not be exact. */
export type Integer = number | bigint;

/** A value of a header. */
export type PythonLiteral = string | boolean | Integer | LiteralTuple | LiteralList;

/** A tuple, in parentheses. */
interface LiteralTuple {
  readonly tuple: readonly PythonLiteral[];
}

/** A list, in brackets. */
interface LiteralList {
  readonly list: readonly PythonLiteral[];
}

/** Texts, truths, integers (no shape has one of more than 20 digits), marks, blanks. */
const TOKENS =
  /'[^'\\\n\r]*'|"[^"\\\n\r]*"|(?:True|False)\b|(?:0|[1-9]\d{0,19})L?\b|[[\](){}:,]|[ \t\n]+/gy;

/** Deepest nesting of lists and tuples: a record inside a record adds two levels. */
const MAX_LITERAL_DEPTH = 32;

/**
 * Parses the dictionary of a header into pairs in order.
 *
 * @param hasLong whether integers may end in an L, as Python 2 wrote long ones
 * @returns undefined when the text is anything else
 */
export function parseDictionary(
  text: string,
  hasLong: boolean,
): (readonly [string, PythonLiteral])[] | undefined {
  const found = text.match(TOKENS) ?? [];
  // Python takes a line break before it for the end of an empty line.
  if (found.join('') !== text || !/^[ \t]*\{/.test(text)) return undefined;
  const tokens = found.filter((token) => !/^[ \t\n]/.test(token));
  if (!hasLong && tokens.some((token) => /^\d+L/.test(token))) return undefined;
  let at = 1;

  const skip = (mark: string): boolean => {
    const isNext = tokens[at] === mark;
    if (isNext) at++;
    return isNext;
  };

  /** Reads items with commas between them, and optionally one after the last. */
  const itemsTo = <T>(end: string, readItem: () => T | undefined): T[] | undefined => {
    const items: T[] = [];
    while (!skip(end)) {
      if (items.length > 0 && tokens[at - 1] !== ',') return undefined;
      const item = readItem();
      if (item === undefined) return undefined;
      items.push(item);
      skip(',');
    }
    return items;
  };

  const readValue = (depth: number): PythonLiteral | undefined => {
    if (depth === 0) return undefined;
    if (skip('[')) {
      const list = itemsTo(']', () => readValue(depth - 1));
      return list && { list };
    }
    if (skip('(')) {
      const tuple = itemsTo(')', () => readValue(depth - 1));
      // One value in parentheses is a tuple only with a comma.
      return tuple?.length === 1 && tokens[at - 2] !== ',' ? undefined : tuple && { tuple };
    }
    return scalarOf(tokens[at++]);
  };

  const pairs = itemsTo('}', () => {
    const key = scalarOf(tokens[at++]);
    const value = skip(':') ? readValue(MAX_LITERAL_DEPTH) : undefined;
    return typeof key === 'string' && value !== undefined ? ([key, value] as const) : undefined;
  });
  return at === tokens.length ? pairs : undefined;
}

/** Reads a text, a truth value or an integer; undefined for punctuation and at the end. */
function scalarOf(token: string = ''): string | boolean | Integer | undefined {
  if (/^['"]/.test(token)) return token.slice(1, -1);
  if (/^[TF]/.test(token)) return token === 'True';
  const digits = /^\d+/.exec(token)?.[0];
  if (digits === undefined) return undefined;
  return Number.isSafeInteger(Number(digits)) ? Number(digits) : BigInt(digits);
}
