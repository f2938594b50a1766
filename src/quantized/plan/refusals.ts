/** The errors of plans: what was found, and what was needed. */

import { QuantizationError } from '../../errors/errors.js';

/** Returns the error for tensors or a configuration that do not fit together. */
export function invalid(tensor: string | undefined, message: string): QuantizationError {
  return new QuantizationError('SAFETENSORS_QUANTIZATION_INVALID', message, { tensor });
}

/** Returns the error for a method that is not dequantized here. */
export function unsupported(tensor: string | undefined, message: string): QuantizationError {
  return new QuantizationError('SAFETENSORS_QUANTIZATION_UNSUPPORTED', message, { tensor });
}

/** A shape in a message. */
export function shapeText(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`;
}
