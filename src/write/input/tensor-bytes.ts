/** The bytes of a new tensor, in every form that callers may give. */

import { argumentTypeError } from '../../errors/arguments.js';
import {
  isAnyArrayBuffer,
  isTypedArray,
  memoryOf,
  plainBytes,
  tagOfArray,
} from '../../errors/brand-checks.js';
import { quoteName, rejectTensor } from '../../errors/errors.js';
import {
  DTYPE_NAMES,
  DTYPES,
  type Dtype,
  type TensorData,
  type TypedArray,
} from '../../header/dtype.js';
import type { NamedTensorSpec } from '../../header/tensor-spec.js';

/**
 * Bytes of a tensor, little endian, C order: the kind of typed array that `Tensor.data` is for its
 * dtype, or raw bytes (Uint8Array, Buffer, ArrayBuffer, SharedArrayBuffer). F16 also takes a
 * Float16Array, U8 a Uint8ClampedArray.
 */
export type TensorBytes<D extends Dtype = Dtype> =
  | TensorData<D, ArrayBufferLike>
  | Uint8Array
  | ArrayBufferLike
  | (D extends 'U8' ? Uint8ClampedArray : never)
  | (D extends 'F16'
      ? TypedArray & {
          /** Node 20 has no such array. */
          readonly [Symbol.toStringTag]: 'Float16Array';
        }
      : never);

const FURTHER_ARRAYS: Readonly<Partial<Record<Dtype, string>>> = {
  F16: 'Float16Array',
  U8: 'Uint8ClampedArray',
};

/** Whether a value is bytes in memory, of any dtype. */
export function isTensorBytes(value: unknown): value is TensorBytes {
  return isTypedArray(value) || isAnyArrayBuffer(value);
}

/** The typed array of each dtype. */
const OWN_ARRAYS: ReadonlyMap<Dtype, string> = new Map(
  DTYPE_NAMES.map((dtype) => [dtype, DTYPES[dtype].data.name]),
);

/**
 * Returns a new view of the bytes, never a copy. Empty when the memory was detached.
 *
 * @throws As {@link requireTensorBytes}
 */
export function bytesOfData(
  tensor: Pick<NamedTensorSpec, 'name' | 'dtype'>,
  data: unknown,
): Uint8Array {
  requireTensorBytes(tensor, data);
  return plainBytes(data);
}

/**
 * Checks the kind of the data.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` unless the value is bytes
 * @throws InvalidTensorError for a typed array of another dtype
 */
export function requireTensorBytes(
  { name, dtype }: Pick<NamedTensorSpec, 'name' | 'dtype'>,
  data: unknown,
): asserts data is TensorBytes {
  if (!isTensorBytes(data)) {
    const expected = `a typed array, an ArrayBuffer or a SharedArrayBuffer${hintForNumbers(dtype, data)}`;
    throw argumentTypeError(`the data of tensor ${quoteName(name)}`, expected, data);
  }
  const tag = isTypedArray(data) ? tagOfArray(data) : 'Uint8Array';
  const own = OWN_ARRAYS.get(dtype);
  if (tag !== own && tag !== 'Uint8Array' && tag !== FURTHER_ARRAYS[dtype]) {
    const expected = own === 'Uint8Array' ? own : `${own}, or raw bytes as Uint8Array`;
    const isConvertible = /^B?F/.test(dtype) && tag === 'Float32Array';
    const hint = isConvertible ? `; fromFloat32(values, '${dtype}') converts` : '';
    rejectTensor(`expected the data of ${dtype} to be a ${expected}, found a ${tag}${hint}`, name);
  }
}

/** A hint for numbers in arrays, nested or not: how to turn them into bytes of the dtype. */
function hintForNumbers(dtype: Dtype, data: unknown): string {
  if (!Array.isArray(data) || data.some(isTensorBytes)) return '';
  const values = 'values.flat(Infinity)';
  const { name } = DTYPES[dtype].data;
  if (name.startsWith('Big')) return `, such as ${name}.from(${values}, BigInt)`;
  // The typed arrays of these dtypes hold bit patterns.
  const isPattern = /^B?F/.test(dtype) && name.startsWith('Uint');
  if (isPattern) return `, such as fromFloat32(Float32Array.from(${values}), '${dtype}')`;
  return `, such as ${name}.from(${values})`;
}

/** Whether the memory is known to be detached. Unknown on Node 20. */
export function isDetached(data: TensorBytes): boolean {
  const buffer: ArrayBufferLike & { readonly detached?: boolean } = memoryOf(data).buffer;
  return buffer.detached === true;
}
