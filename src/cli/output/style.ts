/** Colours and weights of text on a terminal. */

/** Marks text; identity functions when colours are off. */
export interface Style {
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
  /** For bars and numbers that stand out. */
  readonly accent: (text: string) => string;
  readonly warning: (text: string) => string;
  readonly error: (text: string) => string;
}

/** Begin and end of each mark, as terminals read them (ECMA-48, SGR). */
const MARKS = {
  bold: [1, 22],
  dim: [2, 22],
  accent: [36, 39],
  warning: [33, 39],
  error: [31, 39],
} as const;

/** The marks for an output with or without colours. */
export function styleOf(hasColors: boolean): Style {
  const mark =
    ([begin, end]: readonly [number, number]) =>
    (text: string): string =>
      hasColors && text !== '' ? `\x1b[${begin}m${text}\x1b[${end}m` : text;
  return {
    bold: mark(MARKS.bold),
    dim: mark(MARKS.dim),
    accent: mark(MARKS.accent),
    warning: mark(MARKS.warning),
    error: mark(MARKS.error),
  };
}
