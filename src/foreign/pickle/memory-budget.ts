/** Counts the estimated memory of values built from a pickle before they are built. */

import { FormatError } from '../../errors/errors.js';
import type { AllPickleLimits, PickleContext } from './limits.js';

/**
 * The memory left for the names, tensors and plain values of one pickle: at first as much as for the pickle's own
 * values.
 */
export class MemoryBudget {
  readonly #limit: number;
  readonly #context: PickleContext;
  #left: number;

  /** The limit is `maxPickleMemoryByteLength`. */
  constructor({ maxPickleMemoryByteLength }: AllPickleLimits, context: PickleContext) {
    this.#limit = maxPickleMemoryByteLength;
    this.#context = context;
    this.#left = maxPickleMemoryByteLength;
  }

  /** Throws FormatError `SAFETENSORS_FOREIGN_LIMIT` unless this many bytes are left. */
  spend(byteLength: number): void {
    this.#left -= byteLength;
    if (this.#left >= 0) return;
    throw new FormatError(
      'SAFETENSORS_FOREIGN_LIMIT',
      `names and values of the checkpoint exceed limits.maxPickleMemoryByteLength, ${this.#limit}`,
      this.#context,
    );
  }
}
