/** Counts the memory of what is made of a pickle, by estimate, before it is made. */

import { FormatError } from '../../errors/errors.js';
import type { AllPickleLimits, PickleContext } from './limits.js';

/** What the names, tensors and plain values of one pickle may still take: as much as its own values did. */
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

  /** Throws FormatError `SAFETENSORS_FOREIGN_LIMIT` when so many bytes are not left. */
  spend(byteLength: number): void {
    this.#left -= byteLength;
    if (this.#left >= 0) return;
    throw new FormatError(
      'SAFETENSORS_FOREIGN_LIMIT',
      `names and values of the checkpoint take more than limits.maxPickleMemoryByteLength allows, ${this.#limit}`,
      this.#context,
    );
  }
}
