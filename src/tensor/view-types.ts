/**
 * The typed arrays that show the elements of a dtype. Arrays are recognized by name, because names are the same
 * in every realm (`vm` contexts, Jest).
 */

import { argumentTypeError, type OptionNames } from '../errors/arguments.js';
import { type ErrorContext, SafetensorsError } from '../errors/errors.js';
import { DTYPES, type Dtype } from '../header/dtype.js';

/** Any constructor of a typed array: a built-in one, or `Float16Array`. */
export interface ViewConstructor<View> {
  /** Bytes per array element. */
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBuffer, byteOffset: number, length: number): View;
}

/** Options of `Tensor.view`. */
export interface ViewOptions {
  /** Allows every typed array, even if its items are not the elements; false by default. */
  readonly reinterpret?: boolean | undefined;
}

/** Names of the options. */
export const VIEW_OPTIONS: OptionNames<ViewOptions> = { reinterpret: true };

/** Integers by their width in bits: they show the bits of every element of that width. */
const INTEGER_VIEWS: Readonly<Record<number, readonly string[]>> = {
  8: ['Uint8Array', 'Int8Array', 'Uint8ClampedArray'],
  16: ['Uint16Array', 'Int16Array'],
  32: ['Uint32Array', 'Int32Array'],
  64: ['BigUint64Array', 'BigInt64Array'],
};

/** The arrays with the same numbers as the dtype. */
const FLOATS: Readonly<Partial<Record<Dtype, string>>> = {
  F16: 'Float16Array',
  F32: 'Float32Array',
  C64: 'Float32Array',
  F64: 'Float64Array',
};

const ARRAY_NAMES = new Set([...Object.values(INTEGER_VIEWS).flat(), ...Object.values(FLOATS)]);

/** Returns the names of the arrays that show the elements of a dtype; of byte arrays for packed dtypes. */
export function arraysOf(dtype: Dtype): readonly string[] {
  const integers = INTEGER_VIEWS[DTYPES[dtype].bits] ?? ['Uint8Array'];
  const floats = FLOATS[dtype];
  return floats === undefined ? integers : [floats, ...integers];
}

/**
 * Checks the type that a caller gives for a view. `reinterpret` allows every typed array.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` unless `type` makes typed arrays
 * @throws SafetensorsError `SAFETENSORS_DTYPE_MISMATCH` for an array whose items are not the elements
 */
export function requireViewType(
  type: unknown,
  dtype: Dtype,
  reinterpret: boolean,
  context: ErrorContext,
): void {
  if (!isViewConstructor(type)) {
    const expected =
      'the constructor of a typed array (Buffer.from and new DataView take tensor.buffer, ' +
      'tensor.byteOffset and tensor.byteLength)';
    throw argumentTypeError('type', expected, type);
  }
  const fitting = arraysOf(dtype);
  if (reinterpret || fitting.includes(arrayNameOf(type))) return;
  throw new SafetensorsError(
    'SAFETENSORS_DTYPE_MISMATCH',
    `expected ${fitting.join(' or ')} for elements of ${dtype}, found ${arrayNameOf(type)}; ` +
      'toFloat32() gives values, and { reinterpret: true } views the bits as any type',
    context,
  );
}

/** Whether `new` makes an array of items: `new Buffer` is deprecated, and a DataView (of Bun, too) has no items. */
function isViewConstructor(type: unknown): type is ViewConstructor<unknown> {
  if (typeof type !== 'function' || ['Buffer', 'DataView'].includes(type.name)) return false;
  return 'BYTES_PER_ELEMENT' in type && typeof type.BYTES_PER_ELEMENT === 'number';
}

/** Returns the name of the built-in array that a class is or extends; else the class's own name. */
function arrayNameOf(type: ViewConstructor<unknown>): string {
  for (let base: unknown = type; typeof base === 'function'; base = Object.getPrototypeOf(base)) {
    if (ARRAY_NAMES.has(base.name)) return base.name;
  }
  return type.name;
}
