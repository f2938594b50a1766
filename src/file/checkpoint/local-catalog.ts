/** The catalog of a local checkpoint. */

import { type SafetensorsError, TensorNotFoundError } from '../../errors/errors.js';
import { tensorNotFound } from '../../errors/tensor-not-found.js';
import { Catalog } from '../source/catalog.js';

/** A catalog whose errors for unknown names explain wrong numbers and prefixes. */
export class LocalCatalog extends Catalog {
  override notFound(name: string): SafetensorsError {
    const error = super.notFound(name);
    // A tensor that cannot be read has another error.
    if (!(error instanceof TensorNotFoundError)) return error;
    return tensorNotFound(name, this.keys(), { path: error.path });
  }
}
