/** Conversion to float32 by the best that is there: the addon's kernels, else TypeScript. */

import { setImmediate } from 'node:timers/promises';
import { isFloat32Array, isSharedArrayBuffer } from 'node:util/types';
import type { Dtype } from './dtype.js';
import { argumentRangeError, argumentTypeError } from './errors.js';
import { convertToFloat32 } from './float-formats.js';
import { loadNative, type NativeBinding } from './native.js';

function addon(): NativeBinding | undefined {
  const native = loadNative();
  return 'binding' in native ? native.binding : undefined;
}

/**
 * Converts packed elements, at any alignment, on this thread.
 *
 * @param output as many values as the elements have, two for one of C64
 */
export function convert(dtype: Dtype, bytes: Uint8Array, output: Float32Array): void {
  const native = addon();
  if (native === undefined) convertToFloat32(dtype, bytes, output);
  else native.convert(dtype, bytes, output);
}

/** Whether `convertOnPool` has threads to work on. */
export function hasPool(): boolean {
  return addon() !== undefined;
}

/**
 * The same on a thread of the pool. Without the addon, on this thread: the promise settles when the
 * event loop has come round.
 *
 * A thread works on the bare addresses: both arrays must be over memory that is never detached or
 * resized before the promise settles, so no code of others may know their buffers.
 */
export async function convertOnPool(
  dtype: Dtype,
  bytes: Uint8Array,
  output: Float32Array,
): Promise<void> {
  const native = addon();
  if (native !== undefined) return native.convertAsync(dtype, bytes, output);
  convertToFloat32(dtype, bytes, output);
  await setImmediate();
}

/**
 * Whether nobody can take an array's memory away, although others know its buffer: shared memory
 * can be neither detached nor made smaller.
 */
export function isUndetachable(array: Float32Array): boolean {
  return isSharedArrayBuffer(array.buffer);
}

/**
 * Checks the array that a caller gives for a result.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE`, RangeError `ERR_OUT_OF_RANGE` for another length
 */
export function requireInto(into: Float32Array, valueCount: number): void {
  if (!isFloat32Array(into)) throw argumentTypeError('into', 'a Float32Array', into);
  if (into.length !== valueCount) {
    throw argumentRangeError('the length of into', `${valueCount}, one per value`, into.length);
  }
}
