/**
 * Rounds float32 values to narrower floating-point dtypes: once, to nearest, ties to even. Works on bit
 * patterns, and counts the values too large for the dtype: finite values that became infinity or NaN, and all
 * that became the largest number.
 */

import type { SmallFloat } from './small-floats.js';

/** The output: one bit pattern per value. */
export type Patterns = Uint8Array | Uint16Array;

const INFINITY_PATTERN = 0x7f800000;
const MAGNITUDE = 0x7fffffff;

/**
 * Encodes float32 values, given as their bits, to BF16. Returns how many were too large.
 *
 * @param nan the pattern for every NaN
 */
export function encodeBF16(words: Int32Array, output: Patterns, nan: number): number {
  let tooLarge = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    const magnitude = word & MAGNITUDE;
    if (magnitude > INFINITY_PATTERN) {
      output[i] = nan;
      continue;
    }
    // A carry out of the mantissa increments the exponent, up to that of infinity.
    output[i] = (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
    if (magnitude >= 0x7f7f8000 && magnitude < INFINITY_PATTERN) tooLarge++;
  }
  return tooLarge;
}

/** Encodes to F8_E8M0, an exponent alone: drops the sign and takes the nearest power of two, the larger in a tie. */
export function encodeE8M0(words: Int32Array, output: Patterns): void {
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    const exponent = (word >>> 23) & 0xff;
    const mantissa = word & 0x7fffff;
    // A subnormal number has no leading 1: half the mantissa means 2^-127 itself, pattern 0.
    const roundsUp = mantissa > 0x400000 || (mantissa === 0x400000 && exponent > 0);
    output[i] = roundsUp && exponent < 0xff ? exponent + 1 : exponent;
  }
}

/**
 * Positive patterns: of the largest finite number, of values too large, and of NaN; and the bits of a NaN that
 * come from the upper bits of its payload.
 */
interface Limits {
  readonly largest: number;
  readonly overflow: number;
  readonly nan: number;
  readonly payload?: number;
}

function limitsOf(format: SmallFloat): Limits {
  const { exponentBits, mantissaBits, special } = format;
  const signBit = 1 << (exponentBits + mantissaBits);
  const allOnes = signBit - 1;
  const infinity = allOnes - ((1 << mantissaBits) - 1);
  switch (special) {
    case 'ieee': {
      const limits = { largest: infinity - 1, overflow: infinity };
      // In F16 as processors do it, in 8 bits as torch does it.
      const quiet = infinity | (1 << (mantissaBits - 1));
      return exponentBits + mantissaBits > 8
        ? { ...limits, nan: quiet, payload: quiet - infinity - 1 }
        : { ...limits, nan: allOnes };
    }
    case 'all-ones':
      return { largest: allOnes - 1, overflow: allOnes - 1, nan: allOnes };
    case 'minus-zero':
      return { largest: allOnes, overflow: signBit, nan: signBit };
    case 'none':
      // No NaN exists. XOR with the sign gives a zero of the opposite sign, as the oracle does.
      return { largest: allOnes, overflow: allOnes, nan: signBit };
  }
}

/**
 * A mantissa of 24 bits shifted right by this and rounded is 0. Also the largest shift that keeps the sums
 * below within 32 bits.
 */
const SHIFT_TO_ZERO = 25;

/** Encodes float32 values, given as their bits, to a format. Returns how many were too large. */
export function encodeSmallFloat(words: Int32Array, output: Patterns, format: SmallFloat): number {
  const { exponentBits, mantissaBits, bias, special } = format;
  const { largest, overflow, nan, payload = 0 } = limitsOf(format);
  const payloadShift = 23 - mantissaBits;
  // A format without infinity counts it as too large.
  const counted = special === 'ieee' ? INFINITY_PATTERN - 1 : INFINITY_PATTERN;
  const signShift = 31 - exponentBits - mantissaBits;
  const signBit = 1 << (exponentBits + mantissaBits);
  // The sign bit of zero and NaN.
  const zeroSignBit = special === 'minus-zero' ? 0 : signBit;

  // By the exponent of the float32: how far to shift its mantissa (with the leading 1), and the number to add
  // then. Rounding up may carry into the exponent, as it should.
  const shifts = new Uint8Array(256);
  const bases = new Int32Array(256);
  for (let exponent = 0; exponent < 256; exponent++) {
    const own = exponent - 127 + bias;
    shifts[exponent] = Math.min(23 - mantissaBits + Math.max(1 - own, 0), SHIFT_TO_ZERO);
    bases[exponent] = Math.max(own - 1, 0) << mantissaBits;
  }

  let tooLarge = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    const sign = (word >>> signShift) & signBit;
    const magnitude = word & MAGNITUDE;
    if (magnitude > INFINITY_PATTERN) {
      output[i] = (sign & zeroSignBit) ^ (nan | ((word >>> payloadShift) & payload));
      continue;
    }
    const exponent = (word >>> 23) & 0xff;
    const shift = shifts[exponent] as number;
    const mantissa = (word & 0x7fffff) | 0x800000;
    const half = (1 << (shift - 1)) - 1 + ((mantissa >>> shift) & 1);
    const rounded = (bases[exponent] as number) + ((mantissa + half) >>> shift);
    if (rounded > largest) {
      output[i] = sign | overflow;
      if (magnitude <= counted) tooLarge++;
    } else output[i] = rounded === 0 ? sign & zeroSignBit : sign | rounded;
  }
  return tooLarge;
}
