/** Allocates arrays for results. A lack of memory is an error with a code. */

import { type ErrorContext, SafetensorsError } from './errors.js';

/** The errors of this file. */
const found = new WeakSet<SafetensorsError>();

/** The constructor of an array. */
interface ArrayConstructor<Items> {
  readonly BYTES_PER_ELEMENT: number;
  new (length: number): Items;
}

/**
 * Makes an array of zeros. The caller has checked that the runtime can make one of that length.
 *
 * @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY` when memory runs out
 */
export function allocate<Items>(
  Type: ArrayConstructor<Items>,
  length: number,
  context: ErrorContext,
): Items {
  try {
    return new Type(length);
  } catch (cause) {
    throw outOfMemory(length * Type.BYTES_PER_ELEMENT, { ...context, cause });
  }
}

/**
 * Adds the tensor of the context to an error of `allocate` from code that knows no tensors; returns any other error
 * as it is.
 */
export function withTensor(error: unknown, byteLength: number, context: ErrorContext): unknown {
  return error instanceof SafetensorsError && found.has(error)
    ? outOfMemory(byteLength, { ...context, cause: error.cause })
    : error;
}

/** Returns the error for a copy that does not fit into memory. */
export function outOfMemory(byteLength: number, context: ErrorContext): SafetensorsError {
  const message = `not enough memory for a copy of ${byteLength} bytes`;
  const error = new SafetensorsError('SAFETENSORS_OUT_OF_MEMORY', message, context);
  found.add(error);
  return error;
}
