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
