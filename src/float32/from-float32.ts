/**
 * Converts float32 values to the floating-point dtypes, rounding once, to nearest, ties to even.
 * Values that are too large become what they do in the implementation that `docs/dtypes.md` names for
 * each dtype.
 */

import { argumentRangeError, argumentTypeError } from '../errors/arguments.js';
import { isFloat32Array, plainFloat32Array } from '../errors/brand-checks.js';
import type { Dtype, TensorData } from '../format/dtype.js';
import { dtypeOfOtherName } from '../format/dtype-names.js';
import { SMALL_FLOATS, type SmallFloat } from './small-floats.js';

/** The dtypes that float32 values can be converted to. */
export type FloatDtype = Extract<Dtype, `F${string}` | 'BF16' | 'C64'>;

/** The typed array that {@link fromFloat32} gives for a dtype: the same as that of `Tensor.data`. */
export type FloatData<D extends FloatDtype> = TensorData<D>;

/** How many values make whole elements and bytes, where it is more than one. */
const GROUP_LENGTHS: Readonly<Partial<Record<Dtype, number>>> = {
  F4: 2,
  F6_E2M3: 4,
  F6_E3M2: 4,
  C64: 2,
};

const FLOAT_DTYPES: readonly string[] = [
  ...Object.keys(SMALL_FLOATS),
  ...['F8_E8M0', 'BF16', 'F32', 'F64', 'C64'],
];

/**
 * The values as bit patterns of a dtype, the counterpart of `Tensor.toFloat32`: rounded to nearest,
 * ties to even, packed as `docs/dtypes.md` says. Two values, real and imaginary, make one element
 * of C64. Values that are too large become infinity (F16, BF16, F8_E5M2), NaN (F8_E8M0, the FNUZ
 * formats) or the largest number (F8_E4M3, F6, F4). Integer dtypes and BOOL are refused: only the
 * caller knows how to scale and clamp.
 *
 * @param values an even number for F4 and C64, a multiple of four for F6
 * @returns a new array; `new Uint8Array(result.buffer)` are the bytes of a tensor
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for another dtype, or values of another kind
 * @throws RangeError `ERR_OUT_OF_RANGE` for a number of values that does not make whole elements or
 *   bytes
 *
 * @example
 * ```ts
 * const data = fromFloat32(Float32Array.of(1, -2), 'BF16');
 * console.log(data); // → Uint16Array(2) [ 16256, 49152 ]
 * await saveFile('new.safetensors', { weight: { dtype: 'BF16', shape: [2], data } });
 * ```
 */
export function fromFloat32<D extends FloatDtype>(values: Float32Array, dtype: D): FloatData<D>;
export function fromFloat32(given: Float32Array, dtype: FloatDtype): FloatData<FloatDtype> {
  if (!isFloat32Array(given)) throw argumentTypeError('values', 'a Float32Array', given);
  const values = plainFloat32Array(given);
  if (!FLOAT_DTYPES.includes(dtype)) {
    const meant = typeof dtype === 'string' ? dtypeOfOtherName(dtype) : undefined;
    const isFloat = meant !== undefined && FLOAT_DTYPES.includes(meant);
    const expected = isFloat ? `'${meant}'` : `one of ${FLOAT_DTYPES.join(', ')}`;
    throw argumentTypeError('dtype', expected, dtype);
  }
  const groupLength = GROUP_LENGTHS[dtype] ?? 1;
  if (values.length % groupLength !== 0) {
    const expected = `a multiple of ${groupLength} for ${dtype}`;
    throw argumentRangeError('the length of values', expected, values.length);
  }
  if (dtype === 'F64') return new Float64Array(values);
  if (dtype === 'F32' || dtype === 'C64') return new Float32Array(values);
  const halves = dtype === 'F16' || dtype === 'BF16';
  const output = new (halves ? Uint16Array : Uint8Array)(values.length);
  const format = SMALL_FLOATS[dtype];
  if (format !== undefined) encodeSmallFloat(values, output, format);
  else if (dtype === 'BF16') encodeBF16(values, output);
  else encodeE8M0(values, output);
  if (dtype === 'F4') return packNibbles(output);
  return groupLength === 4 ? packSixBits(output) : output;
}

const INFINITY_PATTERN = 0x7f800000;

function wordsOf(values: Float32Array): Int32Array {
  return new Int32Array(values.buffer, values.byteOffset, values.length);
}

function encodeBF16(values: Float32Array, output: Uint8Array | Uint16Array): void {
  const words = wordsOf(values);
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    if ((word & 0x7fffffff) > INFINITY_PATTERN) output[i] = (word >>> 16) | 0x40;
    // A carry out of the mantissa increments the exponent, up to that of infinity.
    else output[i] = (word + 0x7fff + ((word >>> 16) & 1)) >>> 16;
  }
}

/** An exponent alone: drops the sign and takes the nearest power of two, the larger one of a tie. */
function encodeE8M0(values: Float32Array, output: Uint8Array | Uint16Array): void {
  const words = wordsOf(values);
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    const exponent = (word >>> 23) & 0xff;
    const mantissa = word & 0x7fffff;
    // A subnormal number has no leading 1: with half the mantissa it is 2^-127 itself, pattern 0.
    const roundsUp = mantissa > 0x400000 || (mantissa === 0x400000 && exponent > 0);
    output[i] = roundsUp && exponent < 0xff ? exponent + 1 : exponent;
  }
}

/** Positive patterns: of the largest finite number, of what is too large, and of NaN. */
function limitsOf(format: SmallFloat): { largest: number; overflow: number; nan: number } {
  const { exponentBits, mantissaBits, special } = format;
  const signBit = 1 << (exponentBits + mantissaBits);
  const allOnes = signBit - 1;
  const infinity = allOnes - ((1 << mantissaBits) - 1);
  switch (special) {
    case 'ieee': {
      const nan = infinity | (1 << (mantissaBits - 1));
      return { largest: infinity - 1, overflow: infinity, nan };
    }
    case 'all-ones':
      return { largest: allOnes - 1, overflow: allOnes - 1, nan: allOnes };
    case 'minus-zero':
      return { largest: allOnes, overflow: signBit, nan: signBit };
    case 'none':
      // There is no NaN. XOR with the sign gives a zero of the other sign, as the oracle does.
      return { largest: allOnes, overflow: allOnes, nan: signBit };
  }
}

/**
 * A mantissa of 24 bits that is shifted right by this and rounded is 0. Also the largest shift with
 * which the sums below stay within 32 bits.
 */
const SHIFT_TO_ZERO = 25;

function encodeSmallFloat(
  values: Float32Array,
  output: Uint8Array | Uint16Array,
  format: SmallFloat,
): void {
  const { exponentBits, mantissaBits, bias, special } = format;
  const { largest, overflow, nan } = limitsOf(format);
  const signShift = 31 - exponentBits - mantissaBits;
  const signBit = 1 << (exponentBits + mantissaBits);
  // The sign bit that zero and NaN can have.
  const zeroSignBit = special === 'minus-zero' ? 0 : signBit;

  // By the exponent of the float32: how far to shift its mantissa (with the leading 1), and what to
  // add then. Rounding up may carry into the exponent, as it should.
  const shifts = new Uint8Array(256);
  const bases = new Int32Array(256);
  for (let exponent = 0; exponent < 256; exponent++) {
    const own = exponent - 127 + bias;
    shifts[exponent] = Math.min(23 - mantissaBits + Math.max(1 - own, 0), SHIFT_TO_ZERO);
    bases[exponent] = Math.max(own - 1, 0) << mantissaBits;
  }

  const words = wordsOf(values);
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    const sign = (word >>> signShift) & signBit;
    if ((word & 0x7fffffff) > INFINITY_PATTERN) {
      output[i] = (sign & zeroSignBit) ^ nan;
      continue;
    }
    const exponent = (word >>> 23) & 0xff;
    const shift = shifts[exponent] as number;
    const mantissa = (word & 0x7fffff) | 0x800000;
    const half = (1 << (shift - 1)) - 1 + ((mantissa >>> shift) & 1);
    const rounded = (bases[exponent] as number) + ((mantissa + half) >>> shift);
    if (rounded === 0) output[i] = sign & zeroSignBit;
    else output[i] = sign | (rounded > largest ? overflow : rounded);
  }
}

/** Packs two patterns into a byte, the first in the low four bits. */
function packNibbles(patterns: Uint8Array | Uint16Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(patterns.length / 2);
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = (patterns[2 * i] as number) | ((patterns[2 * i + 1] as number) << 4);
  }
  return bytes;
}

/** Packs four patterns into three bytes, from the lowest bit on. */
function packSixBits(patterns: Uint8Array | Uint16Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array((patterns.length / 4) * 3);
  for (let from = 0, to = 0; from < patterns.length; from += 4, to += 3) {
    const stream =
      (patterns[from] as number) |
      ((patterns[from + 1] as number) << 6) |
      ((patterns[from + 2] as number) << 12) |
      ((patterns[from + 3] as number) << 18);
    bytes[to] = stream;
    bytes[to + 1] = stream >> 8;
    bytes[to + 2] = stream >> 16;
  }
  return bytes;
}
