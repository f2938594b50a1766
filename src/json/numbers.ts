/** Numbers of ignored JSON fields: their value is not needed, only whether a double can hold it. */

const DOT = 0x2e;
const MINUS = 0x2d;
const PLUS = 0x2b;
const ZERO = 0x30;
const NINE = 0x39;

/** A double's decimal expansion has no more significant digits than 767, halfway points included. */
const SIGNIFICANT_DIGITS = 800;
/** Exponents are cut here: no header has so many digits that they could bring them back. */
const MAX_EXPONENT = 1e12;

/**
 * Whether the number literal between two positions, without its sign, is below the largest
 * double. Takes time of the literal's length and constant memory, so a literal of 100 MB is safe.
 */
export function isFiniteLiteral(bytes: Uint8Array, start: number, end: number): boolean {
  let digits = '';
  // Power of ten of the digit that stands behind the collected ones.
  let scale = 0;
  let isFraction = false;
  let at = start;
  for (; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === DOT) {
      isFraction = true;
      continue;
    }
    if (byte < ZERO || byte > NINE) break;
    const isCollected = digits.length < SIGNIFICANT_DIGITS && (digits !== '' || byte !== ZERO);
    if (isCollected) digits += String.fromCharCode(byte);
    if (isFraction && (isCollected || digits === '')) scale--;
    else if (!isFraction && !isCollected && digits !== '') scale++;
  }
  if (digits === '') return true;
  return Number.isFinite(Number(`${digits}e${scale + exponentAt(bytes, at, end)}`));
}

/** Value of the exponent that begins at `start` with `e`; 0 when there is none. */
function exponentAt(bytes: Uint8Array, start: number, end: number): number {
  let exponent = 0;
  for (let at = start + 1; at < end; at++) {
    const byte = bytes[at] as number;
    if (byte === PLUS || byte === MINUS) continue;
    exponent = Math.min(exponent * 10 + byte - ZERO, MAX_EXPONENT);
  }
  return bytes[start + 1] === MINUS ? -exponent : exponent;
}

/** Digits of 2^64 - 1. */
const MAX_DIGITS = 20;

/** Digits of the lower part, whose value is below 10^9. */
const LOWER_DIGITS = 9;

/**
 * Splits the integer whose digits are the bytes [start, end) into its lower and its upper 32 bits;
 * false when it is above 2^64 - 1. There are at least 9 digits and no needless zeros in front.
 */
export function splitInteger(
  bytes: Uint8Array,
  start: number,
  end: number,
  halves: Uint32Array,
): boolean {
  if (end - start > MAX_DIGITS) return false;
  const middle = end - LOWER_DIGITS;
  const upper = digitsValue(bytes, start, middle);
  // upper * 10^9 + the lower digits, with 20 bits of upper at a time: all sums stay exact below 2^53.
  const upperHigh = Math.floor(upper / 2 ** 20);
  const low = (upper - upperHigh * 2 ** 20) * 1e9 + digitsValue(bytes, middle, end);
  const carried = Math.floor(low / 2 ** 20);
  const rest = upperHigh * 1e9 + carried;
  const high = Math.floor(rest / 2 ** 12);
  halves[0] = (rest - high * 2 ** 12) * 2 ** 20 + (low - carried * 2 ** 20);
  halves[1] = high;
  return high < 2 ** 32;
}

function digitsValue(bytes: Uint8Array, start: number, end: number): number {
  let value = 0;
  for (let at = start; at < end; at++) value = value * 10 + (bytes[at] as number) - ZERO;
  return value;
}
