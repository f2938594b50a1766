/** Errors of an archive's entries, with the kind that a scan of the archive lists. */

import { type ErrorContext, FormatError } from '../../errors/errors.js';

const CODES = {
  limit: 'SAFETENSORS_FOREIGN_LIMIT',
  checksum: 'SAFETENSORS_CHECKSUM_MISMATCH',
  damage: 'SAFETENSORS_INVALID_ARCHIVE',
} as const;

/** The reason why an entry cannot be read. */
type EntryFault = keyof typeof CODES;

/** A FormatError that knows its fault. */
export class EntryError extends FormatError {
  readonly #fault: EntryFault;

  constructor(fault: EntryFault, message: string, context?: ErrorContext) {
    super(CODES[fault], message, context);
    this.#fault = fault;
  }

  /** The fault of an error about an entry; `damage` for any other error. */
  static faultOf(error: FormatError): EntryFault {
    return #fault in error ? error.#fault : 'damage';
  }
}

// For callers it is nothing else.
Object.defineProperty(EntryError, 'name', { value: FormatError.name });
