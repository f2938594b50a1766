/** Why a checkpoint is refused. */
import { FormatError } from '../../../src/errors/errors.js';
import { type OpenTorchOptions, openTorchCheckpoint } from '../../../src/foreign/torch/open.js';

/** The error of opening a checkpoint; fails when it opens, or throws any other error. */
export function refusal(path: string, options?: OpenTorchOptions): FormatError {
  try {
    openTorchCheckpoint(path, options).close();
  } catch (error) {
    if (error instanceof FormatError) return error;
    throw error;
  }
  throw new Error('nothing was refused');
}
