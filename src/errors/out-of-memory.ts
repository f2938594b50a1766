/** Arrays for results. Too little memory for one is an error with a code. */

import { type ErrorContext, SafetensorsError } from './errors.js';

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
    const message = `there is no memory for a copy of ${length * Type.BYTES_PER_ELEMENT} bytes`;
    throw new SafetensorsError('SAFETENSORS_OUT_OF_MEMORY', message, { ...context, cause });
  }
}
