/** Colours and weights of text on a terminal. */

import { styleText } from 'node:util';

/** Marks text; identity functions when colours are off. */
export interface Style {
  readonly bold: (text: string) => string;
  readonly dim: (text: string) => string;
  /** For bars and numbers that stand out. */
  readonly accent: (text: string) => string;
  readonly warning: (text: string) => string;
  readonly error: (text: string) => string;
}

type Format = Parameters<typeof styleText>[0];

/** The marks for an output with or without colours. */
export function styleOf(hasColors: boolean): Style {
  const mark =
    (format: Format) =>
    (text: string): string =>
      // The output has already decided whether it shows colours.
      hasColors && text !== '' ? styleText(format, text, { validateStream: false }) : text;
  return {
    bold: mark('bold'),
    dim: mark('dim'),
    accent: mark('cyan'),
    warning: mark('yellow'),
    error: mark('red'),
  };
}
