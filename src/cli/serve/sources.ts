/** What `serve` serves of a source: one model, those of a pipeline, or all models below a folder. */

import { basename, resolve } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import { isHubUri } from '../../file/hub/ids.js';
import { statAnything } from '../../platform/io/file-calls.js';
import { runAsync } from '../../work/work.js';
import { isRemote, localPath } from '../sources/open-source.js';
import { modelsAt, type SourceChoice } from './model-files.js';
import { modelsBelow, type ServedModels } from './models-below.js';

/**
 * Finds the files of a source, which is a path or the id of a repository in the Hub's cache; one source for each
 * model of a pipeline, and for each model in a folder that holds several, or whose subfolders hold models. Reads
 * indexes, and opens files of weights without reading them.
 *
 * @throws As `safeOpen`, but not for missing shards; SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`; FormatError
 *   for files of other formats; RangeError `ERR_OUT_OF_RANGE` for the URL of a server
 */
export async function servedSources(
  source: string,
  choice: SourceChoice,
  signal: AbortSignal,
): Promise<ServedModels> {
  if (isRemote(source) && !isHubUri(source)) {
    const expected = 'a path or the id of a cached repository: the page itself opens addresses';
    // A signed address has its secret there.
    throw argumentRangeError('SOURCE', expected, source.replace(/[?#].*/s, ''));
  }
  const path = isHubUri(source) ? source : localPath(source);
  const stats = isHubUri(path) ? undefined : await runAsync(statAnything(path), signal);
  const name = isHubUri(path) ? path.slice('hf://'.length) : stats ? basename(resolve(path)) : path;
  const models = await modelsAt(name, path, choice, signal);
  if (!('error' in models)) return { sources: models, skipped: [] };
  if (stats?.isDirectory() !== true) throw models.error;
  const found = await modelsBelow(name, path, choice, signal);
  if (found.sources.length === 0) throw models.error;
  return found;
}
