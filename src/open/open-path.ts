/** Opens a path by its contents, in any format. Loads the readers of PyTorch checkpoints, of others when needed. */

import { FormatError } from '../errors/errors.js';
import type { Checkpoint, CheckpointFormat } from '../file/checkpoint/checkpoint.js';
import { safeOpenAsync } from '../file/checkpoint/open.js';
import { openTorchCheckpoint } from '../foreign/torch/open.js';
import { detectFormat } from '../write/convert/detect-format.js';
import { type OpenSourceOptions, usedOptions } from './sources/options.js';

/**
 * Opens a path, or the id of a repository in the Hub cache.
 *
 * @throws As `open`
 */
export async function openPath(
  source: string | URL,
  options: OpenSourceOptions,
  formats: readonly CheckpointFormat[],
): Promise<Checkpoint> {
  const { path, format } = await detectFormat(source);
  options.signal?.throwIfAborted();
  // The error of a reader names the other formats.
  const only = formats.length === 1 ? formats[0] : undefined;
  const read = only ?? format ?? 'safetensors';
  if (!formats.includes(read)) {
    const message = `expected ${formats.join(' or ')}, found ${read}`;
    throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path });
  }
  if (read === 'torch') return openTorchCheckpoint(path, usedOptions(options, 'torch'));
  if (read === 'dcp') {
    const { openDistributed } = await import('../foreign/distributed/open-distributed.js');
    return await openDistributed(path, usedOptions(options, 'dcp'), options.signal);
  }
  if (read === 'gguf') {
    const { openGguf } = await import('../foreign/gguf/open-gguf.js');
    return openGguf(path, usedOptions(options, 'gguf'));
  }
  if (read === 'numpy') {
    const { openNumpy } = await import('../foreign/numpy/open-numpy.js');
    return openNumpy(path, usedOptions(options, 'numpy'));
  }
  const opening = usedOptions(options, 'safetensors');
  return await safeOpenAsync(path, { ...opening, signal: options.signal });
}
