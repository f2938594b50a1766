/**
 * Numbers that a pickle spells as text. Python's own readers differ: `strtol`, `int` and `PyLong_FromString` treat
 * octal, underscores, blanks, signs and zero bytes in different ways. So only the spelling of picklers counts as
 * plain.
 */

/** The picklers' spelling of the number after each opcode. Protocol 0 spells False and True as `00` and `01`. */
const PLAIN_NUMBERS: Readonly<Record<string, RegExp>> = {
  INT: /^(?:-?(?:0|[1-9]\d*)|0[01])$/,
  LONG: /^-?(?:0|[1-9]\d*)L?$/,
  FLOAT: /^-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf|nan)$/,
  GET: /^(?:0|[1-9]\d*)$/,
  PUT: /^(?:0|[1-9]\d*)$/,
};

/** Numbers that `int` accepts, up to a zero byte, which ends a C string. */
const READABLE_NUMBER = /^[ \t\n\v\f\r]*([+-]?)(\d+(?:_\d+)*)[ \t\n\v\f\r]*(?:\0|$)/;

/** Whether the argument of an opcode is a number in a line of text. */
export function hasNumber(opcode: string): boolean {
  return Object.hasOwn(PLAIN_NUMBERS, opcode);
}

/** Whether a line spells a number as picklers do after this opcode. */
export function isPlainNumber(opcode: string, line: string): boolean {
  return PLAIN_NUMBERS[opcode]?.test(line) === true;
}

/** The integer of a plain line; undefined for another value or an inexact number. */
export function integerOf(opcode: string, line: string): number | undefined {
  if (opcode === 'FLOAT' || !isPlainNumber(opcode, line)) return undefined;
  const value = Number(line.replace(/L$/, ''));
  return Number.isSafeInteger(value) ? value : undefined;
}

/** The memo number that Python reads from a line; undefined if Python refuses the line. */
export function memoNumberOf(line: string): number | undefined {
  const [, sign, digits] = READABLE_NUMBER.exec(line) ?? [];
  const number = digits === undefined ? -1 : Number(digits.replaceAll('_', ''));
  return number < 0 || (sign === '-' && number !== 0) ? undefined : number;
}
