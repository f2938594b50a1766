/** Sizes in bytes as people write them, such as `'5GB'`. */

import { argumentRangeError, argumentTypeError } from '../../errors/arguments.js';

/** Bytes per unit: decimal units as on the Hub, binary ones under their own names. */
const UNITS: ReadonlyMap<string, number> = new Map([
  ['B', 1],
  ['KB', 1e3],
  ['MB', 1e6],
  ['GB', 1e9],
  ['TB', 1e12],
  ['KIB', 2 ** 10],
  ['MIB', 2 ** 20],
  ['GIB', 2 ** 30],
  ['TIB', 2 ** 40],
  ['K', 1e3],
  ['M', 1e6],
  ['G', 1e9],
  ['T', 1e12],
]);

const UNIT = /(?:(?:[kmgt]i?)?b|[kmgt])$/i;

/** A decimal number as Python reads it, without a minus sign, in ASCII digits. */
const PYTHON_NUMBER =
  /^\+?(?:\d+(?:_\d+)*(?:\.(?:\d+(?:_\d+)*)?)?|\.\d+(?:_\d+)*)(?:e[+-]?\d+(?:_\d+)*)?$/i;

/** No number of bytes needs more characters; text from a stranger may have any number of them. */
const MAX_TEXT_LENGTH = 1_000;

const EXPECTED_SIZE =
  "a number of bytes from 0, or a text such as '5GB' with a number above 0 and one of the units " +
  'B, K, M, G, T, KB, MB, GB, TB, KiB, MiB, GiB, TiB';

/** The characters that Python strips, as far as they are ASCII. */
function isBlank(code: number): boolean {
  return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20);
}

function trimPythonBlanks(text: string): string {
  let begin = 0;
  let end = text.length;
  while (begin < end && isBlank(text.charCodeAt(begin))) begin++;
  while (begin < end && isBlank(text.charCodeAt(end - 1))) end--;
  return text.slice(begin, end);
}

/**
 * Number of bytes that a number or a text means; parts of a byte are cut off. A text is a number
 * above 0 and a unit in upper or lower case: K, M, G, T, KB, MB, GB and TB are powers of 1000, KiB, MiB, GiB and
 * TiB of 1024, B is the byte. Gives the number that `huggingface_hub` gives for every positive size
 * it reads, if the digits are ASCII. `Infinity` means no limit. Errors call the argument `name`.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` unless it is a number or a string
 * @throws RangeError `ERR_OUT_OF_RANGE` for negative numbers, NaN, a text without one of these
 * units, a text whose number is not decimal, is zero or is not finite, and a text of more than 1000
 * characters
 */
export function parseByteSize(value: number | string, name: string): number {
  if (typeof value === 'number') {
    if (!(value >= 0)) throw argumentRangeError(name, EXPECTED_SIZE, value);
    return Math.floor(value);
  }
  if (typeof value !== 'string') throw argumentTypeError(name, EXPECTED_SIZE, value);
  const size = value.length > MAX_TEXT_LENGTH ? Number.NaN : readSize(trimPythonBlanks(value));
  if (!Number.isFinite(size)) throw argumentRangeError(name, EXPECTED_SIZE, value);
  return Math.trunc(size);
}

/** The size before it is cut to whole bytes; NaN when the text is not a size. */
function readSize(text: string): number {
  const unit = UNIT.exec(text)?.[0] ?? '';
  const digits = trimPythonBlanks(text.slice(0, text.length - unit.length));
  const bytesPerUnit = UNITS.get(unit.toUpperCase());
  if (bytesPerUnit === undefined || !PYTHON_NUMBER.test(digits)) return Number.NaN;
  const count = Number(digits.replaceAll('_', ''));
  return count > 0 ? count * bytesPerUnit : Number.NaN;
}
