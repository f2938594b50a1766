/** The error for several tensors that cannot be selected. */

import { adviceOf } from '../../errors/advice.js';
import { type ErrorContext, SafetensorsError } from '../../errors/errors.js';

/** A message shows this many problems. */
const SHOWN_SELECTION_PROBLEMS = 20;

/**
 * Several tensors cannot be selected as asked: unknown names, impossible casts, one name for two tensors. Nothing was
 * written. A single problem is thrown as it is.
 *
 * @example
 * ```ts
 * try {
 *   await convert('my-model', 'some', { names: ['embed.wieght', 'norm.wieght'] });
 * } catch (error) {
 *   if (error instanceof SelectionError) console.log(error.errors.map(({ tensor }) => tensor));
 *   // → [ 'embed.wieght', 'norm.wieght' ]
 * }
 * ```
 */
export class SelectionError extends SafetensorsError {
  declare readonly code: 'SAFETENSORS_INVALID_SELECTION';
  /** All problems. */
  readonly errors: readonly SafetensorsError[];

  /** The message shows the first problems. */
  constructor(errors: readonly SafetensorsError[], context?: ErrorContext) {
    const shown = errors.slice(0, SHOWN_SELECTION_PROBLEMS).map(({ message }) => `\n- ${message}`);
    const left = errors.length - shown.length;
    const more = left === 0 ? '' : `\n- and ${left} more`;
    const message = `the selection has ${errors.length} problems:${shown.join('')}${more}`;
    super('SAFETENSORS_INVALID_SELECTION', message, { ...context, advice: adviceOf(...errors) });
    this.errors = errors;
  }
}

// As in `errors.ts`: minifiers would give it a short name.
Object.defineProperty(SelectionError, 'name', { value: 'SelectionError' });
