/**
 * Tensors of devices such as TPUs, which torch saves as NumPy arrays in the pickle
 * (`_rebuild_device_tensor_from_numpy`).
 */

import {
  PickleBytes,
  PickleGlobal,
  type PickleTuple,
  type PickleValue,
  Placeholder,
} from '../../pickle/values.js';
import { TORCH_DTYPES, type TorchDtype } from './dtypes.js';
import { TorchGlobal } from './globals.js';
import { PickledStorage, TorchTensor, UnsupportedTensor } from './values.js';

/** NumPy's dtypes that torch has, by their codes. */
const NUMPY_DTYPES: ReadonlyMap<PickleValue, string> = new Map([
  ['f8', 'float64'],
  ['f4', 'float32'],
  ['f2', 'float16'],
  ['i8', 'int64'],
  ['i4', 'int32'],
  ['i2', 'int16'],
  ['i1', 'int8'],
  ['u8', 'uint64'],
  ['u4', 'uint32'],
  ['u2', 'uint16'],
  ['u1', 'uint8'],
  ['b1', 'bool'],
  ['c8', 'complex64'],
  ['c16', 'complex128'],
]);

/** The modules that NumPy's function for arrays had. */
const RECONSTRUCT = /^numpy\.(?:core|_core)\.(?:_multiarray_umath|multiarray)\._reconstruct$/;

/** The function for arrays since protocol 5. */
const FROM_BUFFER = /^numpy\.(?:core|_core)\.numeric\._frombuffer$/;

/** An array as its pickle describes it. */
interface PickledArray {
  readonly dtype: TorchDtype;
  readonly shape: readonly number[];
  readonly isFortran: boolean;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/**
 * Returns the tensor of a call of `_rebuild_device_tensor_from_numpy`: array, dtype, device, requires_grad. Undefined
 * for arguments that torch never writes.
 */
export function deviceTensor(args: PickleTuple): TorchTensor | UnsupportedTensor | undefined {
  const [value, global] = args;
  const isDtype = global instanceof TorchGlobal && global.kind === 'dtype';
  if (args.length !== 4 || !isDtype || global.dtype === null) return undefined;
  const { dtype } = global;
  const array = arrayOf(value);
  if (array === undefined) {
    return new UnsupportedTensor('a tensor of another device, as an unknown NumPy array', []);
  }
  // NumPy has no bfloat16: torch saves such tensors as float32, and casts them to their dtype again.
  const isCast = dtype.name === 'bfloat16' && array.dtype.name === 'float32';
  if (!isCast && array.dtype !== dtype) {
    const found = `a tensor of ${dtype.name} as a NumPy array of ${array.dtype.name}`;
    return new UnsupportedTensor(found, []);
  }
  return tensorOf(array, dtype);
}

/** Returns the tensor of a pickled array; undefined for arrays that torch has no dtype for, and big-endian ones. */
export function pickledTensor(value: PickleValue): TorchTensor | undefined {
  const array = arrayOf(value);
  return array && tensorOf(array, array.dtype);
}

function tensorOf(
  { bytes, shape, isFortran, dtype: stored }: PickledArray,
  dtype: TorchDtype,
): TorchTensor {
  const storage = new PickledStorage(dtype, stored, bytes);
  const strides = isFortran ? stridesOf(shape) : stridesOf(shape.toReversed()).reverse();
  const bits = { isConjugate: false, isNegative: false };
  return new TorchTensor(storage, dtype, [0, [...shape], strides], bits);
}

/** Strides in elements, of which those of the first dimension are the smallest. */
function stridesOf(shape: readonly number[]): number[] {
  let stride = 1;
  return shape.map((size) => {
    const own = stride;
    stride *= size;
    return own;
  });
}

function arrayOf(value: PickleValue | undefined): PickledArray | undefined {
  if (!(value instanceof Placeholder) || value.isFilled) return undefined;
  const { global, args, state } = value;
  if (FROM_BUFFER.test(global.path)) {
    const [buffer, dtype, shape, order] = args;
    const isKnown = args.length === 4 && state === null && (order === 'C' || order === 'F');
    return isKnown ? checkedArray(dtype, shape, order === 'F', buffer) : undefined;
  }
  const [type] = args;
  const isArray = type instanceof PickleGlobal && type.path === 'numpy.ndarray';
  if (!RECONSTRUCT.test(global.path) || !isArray || !Array.isArray(state)) return undefined;
  const [version, shape, dtype, isFortran, bytes] = state;
  if (state.length !== 5 || version !== 1 || typeof isFortran !== 'boolean') return undefined;
  return checkedArray(dtype, shape, isFortran, bytes);
}

/** The array, if the bytes are exactly those of its elements. */
function checkedArray(
  given: PickleValue | undefined,
  sizes: PickleValue | undefined,
  isFortran: boolean,
  held: PickleValue | undefined,
): PickledArray | undefined {
  const dtype = dtypeOf(given);
  const bytes = bytesOf(held);
  if (dtype === undefined || bytes === undefined || !Array.isArray(sizes)) return undefined;
  const shape: number[] = [];
  let byteLength = dtype.itemByteLength;
  for (const size of sizes) {
    if (typeof size !== 'number' || size < 0) return undefined;
    shape.push(size);
    byteLength *= size;
  }
  return byteLength === bytes.length ? { dtype, shape, isFortran, bytes } : undefined;
}

/** Protocol 2 has no bytes, and stores empty ones as a call of `bytes`. */
function bytesOf(value: PickleValue | undefined): Uint8Array<ArrayBuffer> | undefined {
  if (value instanceof PickleBytes) return value.bytes;
  if (!(value instanceof Placeholder) || value.args.length > 0) return undefined;
  return /^(?:builtins|__builtin__)\.bytes$/.test(value.global.path)
    ? new Uint8Array(0)
    : undefined;
}

/** The torch dtype of a `numpy.dtype`; undefined for others, and for big-endian values, which torch rejects. */
function dtypeOf(value: PickleValue | undefined): TorchDtype | undefined {
  if (!(value instanceof Placeholder) || value.global.path !== 'numpy.dtype') return undefined;
  const { args, state } = value;
  const name = NUMPY_DTYPES.get(args[0] ?? null);
  const [version, order, ...layout] = Array.isArray(state) ? state : [];
  const isPlain = layout.slice(0, 3).every((part) => part === null);
  if (name === undefined || version !== 3 || !isPlain) return undefined;
  return order === '<' || order === '|' || order === '=' ? TORCH_DTYPES.get(name) : undefined;
}
