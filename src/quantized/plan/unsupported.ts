/** The errors of plans: what was found, and what was needed. */

import type { Advice } from '../../errors/advice.js';
import { QuantizationError, quoteName } from '../../errors/errors.js';

/** Returns the error for tensors or a configuration that do not fit together. */
export function invalid(tensor: string | undefined, message: string): QuantizationError {
  return new QuantizationError('SAFETENSORS_QUANTIZATION_INVALID', message, { tensor });
}

/** Returns the error for a method that is not dequantized here. */
export function unsupported(
  tensor: string | undefined,
  message: string,
  advice?: readonly Advice[],
): QuantizationError {
  return new QuantizationError('SAFETENSORS_QUANTIZATION_UNSUPPORTED', message, { tensor, advice });
}

/** A shape in a message. */
export function formatShape(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`;
}

/** A JSON value in a message. */
export function shownValue(value: unknown): string {
  return JSON.stringify(value ?? null).slice(0, 100);
}

/** The same error with the file that it is about: plans and kernels know none. Returns any other error as it is. */
export function inFile<Failure>(
  error: Failure,
  path: string | undefined,
): Failure | QuantizationError {
  if (!(error instanceof QuantizationError) || path === undefined) return error;
  const { code, tensor, advice, cause } = error;
  const start = tensor === undefined ? '' : `tensor ${quoteName(tensor)}: `;
  return new QuantizationError(code, error.message.slice(start.length), {
    ...{ path, tensor, advice, cause },
  });
}
