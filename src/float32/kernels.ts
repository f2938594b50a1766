/** Conversion to float32 by the best that is there: kernels provided from outside, else TypeScript. */

import { argumentRangeError, argumentTypeError } from '../errors/arguments.js';
import type { Dtype } from '../format/dtype.js';
import { isFloat32Array } from '../format/typed-arrays.js';
import { convertToFloat32 } from './to-float32.js';

/** Kernels that are faster than TypeScript. Arrays are as for {@link convert}. */
export interface Float32Kernels {
  /** Converts on this thread. */
  convert(dtype: Dtype, bytes: Uint8Array, output: Float32Array): void;
  /** Converts on a thread of a pool. */
  convertAsync(dtype: Dtype, bytes: Uint8Array, output: Float32Array): Promise<void>;
}

let provided: () => Float32Kernels | undefined = () => undefined;

/** Sets who is asked for kernels, at every conversion. There are none in a browser. */
export function provideKernels(provider: () => Float32Kernels | undefined): void {
  provided = provider;
}

/** Lets the event loop come round; browsers have no `setImmediate`. */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => (globalThis.setImmediate ?? setTimeout)(resolve));
}

/**
 * Converts packed elements, at any alignment, on this thread.
 *
 * @param output as many values as the elements have, two for one of C64
 */
export function convert(dtype: Dtype, bytes: Uint8Array, output: Float32Array): void {
  const kernels = provided();
  if (kernels === undefined) convertToFloat32(dtype, bytes, output);
  else kernels.convert(dtype, bytes, output);
}

/** Whether `convertOnPool` has threads to work on. */
export function hasPool(): boolean {
  return provided() !== undefined;
}

/**
 * The same on a thread of the pool. Without kernels, on this thread: the promise settles when the
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
  const kernels = provided();
  if (kernels !== undefined) return kernels.convertAsync(dtype, bytes, output);
  convertToFloat32(dtype, bytes, output);
  await nextTurn();
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
