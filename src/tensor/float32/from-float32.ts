/**
 * Converts float32 values to the floating-point dtypes, rounding once, to nearest, ties to even.
 * Values too large become the same as in the implementation that `docs/internals/dtypes.md` names for each dtype.
 */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireOptions,
} from '../../errors/arguments.js';
import {
  isFloat32Array,
  isTypedArray,
  memoryOf,
  plainFloat32Array,
  tagOf,
} from '../../errors/brand-checks.js';
import { DTYPES, type Dtype, type TensorData } from '../../header/dtype.js';
import { dtypeOfOtherName } from '../../header/dtype-names.js';
import { isCastTarget } from './cast.js';
import { encodeE8M0, encodeSmallFloat, type Patterns } from './encode.js';
import { cast } from './kernels.js';
import { SMALL_FLOATS } from './small-floats.js';
import { valueCountOf } from './to-float32.js';

/** The dtypes that float32 values can be converted to. */
export type FloatDtype = Extract<Dtype, `F${string}` | 'BF16' | 'C64'>;

/** The typed array that {@link fromFloat32} returns for a dtype: the type of `Tensor.data`. */
type FloatData<D extends FloatDtype> = TensorData<D>;

/** Options of {@link fromFloat32}. */
export interface FromFloat32Options<D extends FloatDtype = FloatDtype> {
  /**
   * The array to write to; new memory by default. Of the type that `fromFloat32` returns for the dtype, and exactly
   * as long. It must not overlap the values.
   */
  readonly into?: FloatData<D> | undefined;
}

/** Names of the options. */
const FROM_FLOAT32_OPTIONS: OptionNames<FromFloat32Options> = { into: true };

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
 * @param options `into` reuses an array
 * @returns an array whose bytes are those of a tensor: a new one, or `into`
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for another dtype, and for values or `into` of another type
 * @throws RangeError `ERR_OUT_OF_RANGE` unless the number of values makes whole elements and bytes; for `into` of
 *   another length, or overlapping the values
 *
 * @example
 * ```ts
 * const data = fromFloat32(Float32Array.of(1, -2), 'BF16');
 * console.log(data); // → Uint16Array(2) [ 16256, 49152 ]
 * await saveFile('new.safetensors', { weight: { dtype: 'BF16', shape: [2], data } });
 * ```
 */
export function fromFloat32<D extends FloatDtype>(
  values: Float32Array,
  dtype: D,
  options?: FromFloat32Options<D>,
): FloatData<D>;
export function fromFloat32(
  given: Float32Array,
  dtype: FloatDtype,
  options: FromFloat32Options = {},
): FloatData<FloatDtype> {
  if (!isFloat32Array(given)) throw argumentTypeError('values', 'a Float32Array', given);
  const values = plainFloat32Array(given);
  if (!FLOAT_DTYPES.includes(dtype)) {
    const meant = typeof dtype === 'string' ? dtypeOfOtherName(dtype) : undefined;
    const isFloat = meant !== undefined && FLOAT_DTYPES.includes(meant);
    const expected = isFloat ? `'${meant}'` : `one of ${FLOAT_DTYPES.join(', ')}`;
    throw argumentTypeError('dtype', expected, dtype);
  }
  requireOptions(options, FROM_FLOAT32_OPTIONS);
  const groupLength = GROUP_LENGTHS[dtype] ?? 1;
  if (values.length % groupLength !== 0) {
    const expected = `a multiple of ${groupLength} for ${dtype}`;
    throw argumentRangeError('the length of values', expected, values.length);
  }
  const output = outputFor(dtype, values, options.into);
  if (DTYPES[dtype].bits >= 32) output.set(values);
  else encode(dtype, values, output as Patterns);
  return options.into ?? output;
}

/** The array for the result: new, or over the memory of `into`. */
function outputFor(
  dtype: FloatDtype,
  values: Float32Array,
  into: FloatData<FloatDtype> | undefined,
): FloatData<FloatDtype> {
  const { bits, data: Output } = DTYPES[dtype];
  const byteLength = ((values.length / valueCountOf(dtype, 1)) * bits) / 8;
  const length = byteLength / Output.BYTES_PER_ELEMENT;
  const create = (buffer: ArrayBufferLike, byteOffset: number) =>
    new Output(buffer, byteOffset, length) as FloatData<FloatDtype>;
  if (into === undefined) return create(new ArrayBuffer(byteLength), 0);
  if (!isTypedArray(into) || tagOf(into) !== Output.name) {
    throw argumentTypeError('into', `a ${Output.name} for ${dtype}`, into);
  }
  const memory = memoryOf(into);
  if (memory.byteLength !== byteLength) {
    const found = memory.byteLength / Output.BYTES_PER_ELEMENT;
    throw argumentRangeError('the length of into', `${length} for ${dtype}`, found);
  }
  // An array over a detached buffer cannot be created.
  if (byteLength === 0) return create(new ArrayBuffer(0), 0);
  const overlaps =
    memory.buffer === values.buffer &&
    memory.byteOffset < values.byteOffset + values.byteLength &&
    values.byteOffset < memory.byteOffset + byteLength;
  if (overlaps) {
    throw argumentRangeError('into', 'memory that does not overlap the values', 'part of it');
  }
  return create(memory.buffer, memory.byteOffset);
}

/** Encodes to dtypes of up to 16 bits. */
function encode(dtype: FloatDtype, values: Float32Array, output: Patterns): void {
  if (isCastTarget(dtype)) {
    cast('F32', dtype, bytesOfView(values), bytesOfView(output));
    return;
  }
  const isPacked = GROUP_LENGTHS[dtype] !== undefined;
  const words = new Int32Array(values.buffer, values.byteOffset, values.length);
  const patterns = isPacked ? new Uint8Array(values.length) : output;
  const format = SMALL_FLOATS[dtype];
  if (format === undefined) encodeE8M0(words, patterns);
  else encodeSmallFloat(words, patterns, format);
  if (dtype === 'F4') packNibbles(patterns, output);
  else if (isPacked) packSixBits(patterns, output);
}

function bytesOfView({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** Packs two patterns into a byte, the first in the low four bits. */
function packNibbles(patterns: Patterns, bytes: Patterns): void {
  for (let i = 0; i < bytes.length; i++) {
    bytes[i] = (patterns[2 * i] as number) | ((patterns[2 * i + 1] as number) << 4);
  }
}

/** Packs four patterns into three bytes, from the lowest bit on. */
function packSixBits(patterns: Patterns, bytes: Patterns): void {
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
}
