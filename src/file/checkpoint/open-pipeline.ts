/** Opens pipelines of diffusers on this machine. */

import { join } from 'node:path';
import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { FormatError, SafetensorsError } from '../../errors/errors.js';
import { statPath } from '../../platform/io/file-calls.js';
import { pathText } from '../../platform/io/paths.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { runSync, type Work } from '../../work/work.js';
import { requireVariant, variantsAmong } from '../shards/file-choice.js';
import { PIPELINE_FILE } from '../shards/file-names.js';
import { missingVariant } from '../shards/pipeline-files.js';
import {
  componentsIn,
  MAX_PIPELINE_FILE_BYTE_LENGTH,
  openModels,
  Pipeline,
  type PipelineBytes,
  type PipelineOptions,
} from '../source/pipeline.js';
import type { Checkpoint } from './checkpoint.js';
import {
  findFolder,
  OPEN_CHECKPOINT_OPTIONS,
  type OpenCheckpointOptions,
  openLazily,
} from './open.js';
import { type FoundModel, modelsOf, namesIn } from './pipeline.js';

const NOT_FOUND: readonly string[] = ['SAFETENSORS_CHECKPOINT_NOT_FOUND'];

/** Options of {@link openPipeline}. */
export interface OpenPipelineOptions extends OpenCheckpointOptions, PipelineOptions {}

const OPEN_PIPELINE_OPTIONS: OptionNames<OpenPipelineOptions> = {
  ...OPEN_CHECKPOINT_OPTIONS,
  toVerify: true,
};

/**
 * Opens a pipeline of diffusers, a folder with `model_index.json`, or a repository with one in the Hub's cache on this
 * machine: each model as {@link openCheckpoint} opens its folder. A folder without weights, as of a scheduler or a
 * tokenizer, is passed over. With `variant` takes the files of that variant where a folder has them, as diffusers does,
 * and the usual ones elsewhere.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a folder without `model_index.json`, and for a variant
 *   that no folder has; FormatError `SAFETENSORS_INVALID_PIPELINE` for a bad `model_index.json`; as `openCheckpoint`
 *
 * @example
 * ```ts
 * const pipeline = openPipeline('my-pipeline', { variant: 'fp16' });
 * for (const [folder, model] of pipeline.models) console.log(folder, model.keys());
 * // → text_encoder [ 'embed.weight', 'norm.weight' ]
 * // → unet [ 'embed.weight', 'norm.weight' ]
 * pipeline.close();
 * ```
 */
export function openPipeline(
  path: string | URL,
  options: OpenPipelineOptions = {},
): Pipeline<Checkpoint> {
  requireOptions(options, OPEN_PIPELINE_OPTIONS);
  requireVariant(options.variant);
  const { variant, revision, toVerify = false, ...opening } = options;
  requireBoolean('toVerify', toVerify);
  const folder = runSync(findFolder(pathText('path', path), revision));
  const found = runSync(findModels(folder, variant));
  const places = found.models.map((model) => [model.name, model] as const);
  const opened = openModels(places, toVerify, ({ path: below, variant: wanted }) => {
    const path = join(folder, below);
    return runSync(openModel(path, wanted, (variant) => openLazily(path, { ...opening, variant })));
  });
  const bytes = { checks: [], verify: verifyBytesOf(opened.models) };
  return Pipeline.of({ path: folder, missing: found.missing, ...opened, bytes });
}

/** Compares the files of all models with the hashes that they declare. */
function verifyBytesOf(models: ReadonlyMap<string, Checkpoint>): PipelineBytes['verify'] {
  return async (options) => {
    const files = [...models].flatMap(([folder, model]) =>
      model.claimingFiles().map((file) => ({ ...file, name: `${folder}/${file.name}` })),
    );
    const { verifyClaims } = await import('../verification/verify-claims.js');
    return await verifyClaims(files, options);
  };
}

/** Opens a model; where its usual file leads nowhere, as a link may, the first variant that is there. */
export function* openModel<Opened>(
  path: string,
  wanted: string | undefined,
  open: (variant: string | undefined) => Work<Opened>,
): Work<Opened> {
  try {
    return yield* open(wanted);
  } catch (error) {
    if (!hasCode(error, NOT_FOUND) || wanted !== undefined) throw error;
    for (const variant of variantsAmong(yield* namesIn(path))) {
      try {
        return yield* open(variant);
      } catch (other) {
        if (!hasCode(other, NOT_FOUND)) throw other;
      }
    }
    throw error;
  }
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
): Work<{ readonly models: readonly FoundModel[]; readonly missing: readonly string[] }> {
  const missing = yield* missingFolders(folder);
  const models = yield* modelsOf(folder, variant);
  if (variant !== undefined && !models.some((model) => model.variant === variant)) {
    throw missingVariant(variant, folder);
  }
  return { models, missing };
}

function* missingFolders(folder: string): Work<string[]> {
  const names = yield* namesIn(folder);
  if (!names.includes(PIPELINE_FILE)) {
    const message = `expected a pipeline, found no ${PIPELINE_FILE} in the folder`;
    throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path: folder });
  }
  const path = join(folder, PIPELINE_FILE);
  const { size } = yield* statPath(path);
  if (size > MAX_PIPELINE_FILE_BYTE_LENGTH) {
    const message = `expected at most ${MAX_PIPELINE_FILE_BYTE_LENGTH} bytes, found ${size}`;
    throw new FormatError('SAFETENSORS_INVALID_PIPELINE', message, { path });
  }
  const bytes = yield* readSmallFile(path);
  return componentsIn(new TextDecoder().decode(bytes), path).filter(
    (name) => !names.includes(name),
  );
}
