/** Opens pipelines of diffusers on this machine. */

import { join } from 'node:path';
import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { statPath } from '../../platform/io/file-calls.js';
import { requirePath } from '../../platform/io/paths.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { runSync, type Work } from '../../work/work.js';
import { requireVariant } from '../shards/file-choice.js';
import { PIPELINE_FILE } from '../shards/file-names.js';
import { type Component, checkPipelineByteLength, noPipeline } from '../shards/pipeline-files.js';
import {
  componentsIn,
  openModels,
  Pipeline,
  type PipelineBytes,
  type PipelineOptions,
} from '../source/pipeline.js';
import { Checkpoint } from './checkpoint.js';
import { type FoundSource, findFolder, findInFolder, modelFiles } from './find-source.js';
import { type IndexLimit, OPEN_OPTIONS, type OpenOptions, openFound } from './open.js';
import { modelsOf, namesIn } from './pipeline.js';

/** Options of {@link openPipeline}. */
export interface OpenPipelineOptions extends Omit<OpenOptions, 'expectedHash'>, PipelineOptions {}

// A pipeline has several files, each with its own hash.
const { expectedHash: _expectedHash, ...OF_EVERY_FILE } = OPEN_OPTIONS;

const OPEN_PIPELINE_OPTIONS: OptionNames<OpenPipelineOptions> = {
  ...OF_EVERY_FILE,
  skipFailed: true,
};

/**
 * Opens a pipeline of diffusers, a folder with `model_index.json`, or a repository with one in the Hub cache on this
 * machine: each model as {@link safeOpen} opens its folder. A folder without weights, as of a scheduler or a
 * tokenizer, is skipped; one that `model_index.json` lists and that has only weights of other formats is an error. With `variant` takes the files of that variant where a folder has them, as diffusers does,
 * and the usual ones elsewhere.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a folder without `model_index.json`, and for a variant
 *   that no folder has; FormatError `SAFETENSORS_INVALID_PIPELINE` for a bad `model_index.json`; as `safeOpen`
 */
export function openPipeline(
  path: string | URL,
  options: OpenPipelineOptions = {},
): Pipeline<Checkpoint> {
  requireOptions(options, OPEN_PIPELINE_OPTIONS);
  requireVariant(options.variant);
  const { variant, revision, skipFailed = false, ...opening } = options;
  requireBoolean('skipFailed', skipFailed);
  const folder = runSync(findFolder(requirePath('path', path), revision));
  const found = runSync(findModels(folder, variant));
  const places = found.models.map((model) => [model.name, model] as const);
  const opened = openModels(places, skipFailed, (model) => {
    const files = modelFiles(runSync(findComponent(folder, model)));
    return Checkpoint.of(runSync(openFound(files, opening)));
  });
  const bytes = { checks: [], verify: verifyBytesOf(opened.models) };
  return Pipeline.of({ path: folder, missing: found.missing, ...opened, bytes });
}

/** Compares the files of all models with the hashes that they declare. */
function verifyBytesOf(models: ReadonlyMap<string, Checkpoint>): PipelineBytes['verify'] {
  return async (options) => {
    const files = [...models].flatMap(([folder, model]) =>
      model.declaringFiles().map((file) => ({ ...file, name: `${folder}/${file.name}` })),
    );
    const { verifyDeclaredHashes } = await import('../verification/verify-declared-hashes.js');
    return await verifyDeclaredHashes(files, options);
  };
}

/**
 * Finds the files of a model of a pipeline.
 *
 * @throws As `findSource` for the folder of the model
 */
export function* findComponent(
  pipeline: string,
  { name, files, variant }: Component,
  options: IndexLimit = {},
): Work<FoundSource> {
  return yield* findInFolder(join(pipeline, name), files, { ...options, variant });
}

/**
 * Finds the models of a pipeline, and the folders that its `model_index.json` names and that are not there.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a folder without `model_index.json`, and for a variant
 *   that no folder has; FormatError `SAFETENSORS_INVALID_PIPELINE`
 */
export function* findModels(
  folder: string,
  variant: string | undefined,
): Work<{ readonly models: readonly Component[]; readonly missing: readonly string[] }> {
  const names = yield* namesIn(folder);
  const named = yield* namedComponents(folder, names);
  const missing = named.filter((name) => !names.includes(name));
  return { models: yield* modelsOf(folder, named, variant), missing };
}

function* namedComponents(folder: string, names: readonly string[]): Work<string[]> {
  if (!names.includes(PIPELINE_FILE)) throw noPipeline(folder);
  const path = join(folder, PIPELINE_FILE);
  const { size } = yield* statPath(path);
  checkPipelineByteLength(size, path);
  const bytes = yield* readSmallFile(path);
  return componentsIn(new TextDecoder().decode(bytes), path);
}
