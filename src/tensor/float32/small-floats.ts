/** The floating-point formats narrower than float32, except BF16 and F8_E8M0. */

import type { Dtype } from '../../header/dtype.js';

/** Layout of a format with a sign, an exponent and a mantissa, from the highest bit down. */
export interface SmallFloat {
  readonly exponentBits: number;
  readonly mantissaBits: number;
  readonly bias: number;
  /**
   * The patterns that are not finite numbers: as in IEEE 754; only all bits set, with any sign; only the pattern of
   * minus zero; no pattern.
   */
  readonly special: 'ieee' | 'all-ones' | 'minus-zero' | 'none';
}

/** The formats by dtype. */
export const SMALL_FLOATS: Readonly<Partial<Record<Dtype, SmallFloat>>> = {
  F4: { exponentBits: 2, mantissaBits: 1, bias: 1, special: 'none' },
  F6_E2M3: { exponentBits: 2, mantissaBits: 3, bias: 1, special: 'none' },
  F6_E3M2: { exponentBits: 3, mantissaBits: 2, bias: 3, special: 'none' },
  F8_E5M2: { exponentBits: 5, mantissaBits: 2, bias: 15, special: 'ieee' },
  F8_E4M3: { exponentBits: 4, mantissaBits: 3, bias: 7, special: 'all-ones' },
  F8_E4M3FNUZ: { exponentBits: 4, mantissaBits: 3, bias: 8, special: 'minus-zero' },
  F8_E5M2FNUZ: { exponentBits: 5, mantissaBits: 2, bias: 16, special: 'minus-zero' },
  F16: { exponentBits: 5, mantissaBits: 10, bias: 15, special: 'ieee' },
};

/** The value of a bit pattern, exactly. */
export function decodeSmallFloat(pattern: number, format: SmallFloat): number {
  const { exponentBits, mantissaBits, bias, special } = format;
  const signBit = 1 << (exponentBits + mantissaBits);
  const magnitude = pattern & (signBit - 1);
  const exponent = magnitude >> mantissaBits;
  const fraction = (magnitude & ((1 << mantissaBits) - 1)) / 2 ** mantissaBits;
  const sign = (pattern & signBit) === 0 ? 1 : -1;
  if (special === 'ieee' && exponent === (1 << exponentBits) - 1) {
    return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  if (special === 'all-ones' && magnitude === signBit - 1) return Number.NaN;
  if (special === 'minus-zero' && pattern === signBit) return Number.NaN;
  // Exponent 0 stands for the subnormal numbers, which lack the leading 1.
  return exponent === 0
    ? sign * fraction * 2 ** (1 - bias)
    : sign * (1 + fraction) * 2 ** (exponent - bias);
}
