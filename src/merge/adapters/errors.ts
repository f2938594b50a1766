/** Errors of adapters. */

import { type ErrorContext, quoteName, SafetensorsError } from '../../errors/errors.js';

/** The error of an adapter that lacks a part, or contradicts itself or its configuration. */
export function invalidAdapter(message: string, context: ErrorContext): SafetensorsError {
  return new SafetensorsError('SAFETENSORS_INVALID_ADAPTER', message, context);
}

/** The error of an adapter, or a base, that cannot be merged. */
export function unsupportedMerge(message: string, context: ErrorContext): SafetensorsError {
  return new SafetensorsError('SAFETENSORS_MERGE_UNSUPPORTED', message, context);
}

/** The error of factors whose shapes don't fit the weight. */
export function shapeMismatch(
  found: string,
  name: string,
  shape: readonly number[],
  context: ErrorContext,
): SafetensorsError {
  const message = `${found} does not fit ${quoteName(name)} of shape ${formatShape(shape)}; is it an adapter of another model?`;
  return new SafetensorsError('SAFETENSORS_MERGE_MISMATCH', message, context);
}

/** A shape, for messages. */
export function formatShape(shape: readonly number[]): string {
  return `[${shape.join(', ')}]`;
}
