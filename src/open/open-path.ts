/** Opens a path by its contents, in any format. Loads the readers of other formats. */

import type { Checkpoint, CheckpointFormat } from '../file/checkpoint/checkpoint.js';
import { openCheckpointAsync } from '../file/checkpoint/open.js';
import { openNumpy } from '../foreign/numpy/open-numpy.js';
import { openTorchCheckpoint } from '../foreign/torch/open.js';
import { statPath } from '../platform/io/file-calls.js';
import { pathText } from '../platform/io/paths.js';
import { runAsync } from '../work/work.js';
import { detectFormat } from '../write/convert/detect-format.js';
import { type OpenSourceOptions, requireFormat, usedOptions } from './sources/options.js';

/**
 * Opens a path, or with `remote` the id of a repository in the Hub cache.
 *
 * @throws As `open`
 */
export async function openPath(
  source: string | URL,
  options: OpenSourceOptions,
  formats: readonly CheckpointFormat[],
): Promise<Checkpoint> {
  const { remote = true, signal } = options;
  // The id of a cached repository is no path: then the error of the system is thrown.
  if (!remote) await runAsync(statPath(pathText('source', source)), signal);
  const { path, format } = await detectFormat(source);
  // The error of `openCheckpoint` names the other formats.
  const read = format ?? 'safetensors';
  requireFormat(read, formats);
  if (read === 'torch') return openTorchCheckpoint(path, usedOptions(options, 'torch'));
  if (read === 'numpy') return openNumpy(path, usedOptions(options, 'numpy'));
  const { verify, ...opening } = usedOptions(options, 'safetensors');
  return await openCheckpointAsync(path, { ...opening, checksums: verify, signal });
}
