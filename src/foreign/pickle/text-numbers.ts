/**
 * Numbers that a pickle spells as text. Python's own readers differ here: C's `strtol`, `int` and
 * `PyLong_FromString` take octal, underscores, blanks, signs and zero bytes each in their way. So only one spelling
 * is plain: that of picklers.
 */

/** How picklers write the number behind each opcode. `00` and `01` are how protocol 0 spells False and True. */
const PLAIN_NUMBERS: Readonly<Record<string, RegExp>> = {
  INT: /^(?:-?(?:0|[1-9]\d*)|0[01])$/,
  LONG: /^-?(?:0|[1-9]\d*)L?$/,
  FLOAT: /^-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)$/,
  GET: /^(?:0|[1-9]\d*)$/,
  PUT: /^(?:0|[1-9]\d*)$/,
};

/** What `int` takes for a number, up to a zero byte, at which C ends the text. */
const READABLE_NUMBER = /^[ \t\n\v\f\r]*([+-]?)(\d+(?:_\d+)*)[ \t\n\v\f\r]*(?:\0|$)/;

/** Whether a number in a line of text follows an opcode. */
export function hasNumber(opcode: string): boolean {
  return Object.hasOwn(PLAIN_NUMBERS, opcode);
}

/** Whether a line is a number as picklers write it behind this opcode. */
export function isPlainNumber(opcode: string, line: string): boolean {
  return PLAIN_NUMBERS[opcode]?.test(line) === true;
}

/** The integer that a plain line says; undefined when it is another value, or not exact as a number. */
export function integerOf(opcode: string, line: string): number | undefined {
  if (opcode === 'FLOAT' || !isPlainNumber(opcode, line)) return undefined;
  const value = Number(line.replace(/L$/, ''));
  return Number.isSafeInteger(value) ? value : undefined;
}

/** The number of a memo that Python reads in a line; undefined when it refuses the line. */
export function memoNumberOf(line: string): number | undefined {
  const [, sign, digits] = READABLE_NUMBER.exec(line) ?? [];
  const number = digits === undefined ? -1 : Number(digits.replaceAll('_', ''));
  return number < 0 || (sign === '-' && number !== 0) ? undefined : number;
}
