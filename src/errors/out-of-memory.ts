/** Arrays for results. Too little memory for one is an error with a code. */

import { type ErrorContext, SafetensorsError } from './errors.js';

const OUT_OF_MEMORY = 'SAFETENSORS_OUT_OF_MEMORY';

/** The constructor of an array. */
interface ArrayConstructor<Items> {
  readonly BYTES_PER_ELEMENT: number;
  new (length: number): Items;
}

/**
 * Makes an array of zeros. The caller has checked that the runtime can make one of that length.
 *
 * @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY` when the system has no memory for it
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
 * The error to throw for one from code that knows no tensors: when `allocate` threw it, one that names the
 * tensor of the context; otherwise the same.
 */
export function withTensor(error: unknown, byteLength: number, context: ErrorContext): unknown {
  const isAboutMemory = error instanceof SafetensorsError && error.code === OUT_OF_MEMORY;
  return isAboutMemory ? outOfMemory(byteLength, { ...context, cause: error.cause }) : error;
}

/** The error for a copy of so many bytes that there is no memory for. */
export function outOfMemory(byteLength: number, context: ErrorContext): SafetensorsError {
  return new SafetensorsError(
    OUT_OF_MEMORY,
    `there is no memory for a copy of ${byteLength} bytes`,
    context,
  );
}
