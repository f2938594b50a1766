/**
 * Converts float32 values to the floating-point dtypes, rounding once, to nearest, ties to even.
 * Values too large become the same as in the implementation that `docs/internals/dtypes.md` names for each dtype.
 */

import { argumentRangeError, argumentTypeError } from '../../errors/arguments.js';
import { isFloat32Array, plainFloat32Array } from '../../errors/brand-checks.js';
import type { Dtype, TensorData } from '../../header/dtype.js';
import { dtypeOfOtherName } from '../../header/dtype-names.js';
import { isCastTarget } from './cast.js';
import { encodeE8M0, encodeSmallFloat } from './encode.js';
import { cast } from './kernels.js';
import { SMALL_FLOATS } from './small-floats.js';

/** The dtypes that float32 values can be converted to. */
export type FloatDtype = Extract<Dtype, `F${string}` | 'BF16' | 'C64'>;

/** The typed array that {@link fromFloat32} returns for a dtype: the type of `Tensor.data`. */
type FloatData<D extends FloatDtype> = TensorData<D>;

/** Number of values that make whole elements and bytes, where it is more than one. */
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
 * Converts values to bit patterns of a dtype, the counterpart of `Tensor.toFloat32`: rounds to nearest, ties to
 * even, and packs as described in `docs/internals/dtypes.md`. Two values, real and imaginary, make one element
 * of C64. Values that are too large become infinity (F16, BF16, F8_E5M2), NaN (F8_E8M0, the FNUZ
 * formats) or the largest number (F8_E4M3, F6, F4). Integer dtypes and BOOL are refused: only the
 * caller knows how to scale and clamp.
 *
 * @param values an even number for F4 and C64, a multiple of four for F6
 * @returns a new array; `new Uint8Array(result.buffer)` are the bytes of a tensor
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for another dtype, or values of another kind
 * @throws RangeError `ERR_OUT_OF_RANGE` unless the number of values makes whole elements and
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
  const words = new Int32Array(values.buffer, values.byteOffset, values.length);
  if (isCastTarget(dtype)) cast('F32', dtype, bytesOfView(words), bytesOfView(output));
  else if (format !== undefined) encodeSmallFloat(words, output, format);
  else encodeE8M0(words, output);
  if (dtype === 'F4') return packNibbles(output);
  return groupLength === 4 ? packSixBits(output) : output;
}

function bytesOfView({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
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
