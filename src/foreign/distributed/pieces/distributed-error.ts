/** The error for a damaged distributed checkpoint. */

import { type ErrorContext, FormatError } from '../../../errors/errors.js';

export function invalid(message: string, context: ErrorContext): FormatError {
  return new FormatError('SAFETENSORS_INVALID_DISTRIBUTED', message, context);
}
