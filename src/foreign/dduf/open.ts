/** Opens DDUF archives: the models of a pipeline, each mapped from its place within the archive. */

import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import type { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import type { ParseOptions } from '../../file/open.js';
import { requireVariant } from '../../file/shards/file-choice.js';
import { openModels, Pipeline, type PipelineOptions } from '../../file/source/pipeline.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { requirePath } from '../../platform/io/paths.js';
import {
  requireStorageOptions,
  STORAGE_OPTIONS,
  type StorageOptions,
} from '../../platform/storage/open.js';
import { openModel, readModels } from './models.js';
import { archiveBytes } from './verify.js';

/** Options of DDUF archives. */
export interface OpenDdufOptions extends ParseOptions, StorageOptions, PipelineOptions {
  /** Opens the files of a variant, such as `fp16`, in folders that have them. */
  readonly variant?: string | undefined;
}

const OPEN_DDUF_OPTIONS: OptionNames<OpenDdufOptions> = {
  ...STORAGE_OPTIONS,
  maxHeaderByteLength: true,
  skipFailed: true,
  variant: true,
};

/**
 * Opens a DDUF archive, which is one file with a whole pipeline of diffusers: every model is a checkpoint over its bytes
 * within the archive. Nothing is unpacked; each file of weights is mapped by itself, and takes a descriptor.
 * `path` of a model is that of the archive and the name in it, joined by `/`, which is no file.
 *
 * The archive must be readable in one way only, as `open` demands it, and keep the rules of DDUF: entries
 * without compression, at most one folder deep, `model_index.json`, and a configuration in every folder that it names.
 *
 * @throws FormatError `SAFETENSORS_INVALID_ARCHIVE`, `SAFETENSORS_INCOMPLETE_FILE`, `SAFETENSORS_INVALID_PIPELINE`,
 *   `SAFETENSORS_FOREIGN_FORMAT` for another file; as `safeOpen` for the files of a model
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS`; `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a variant that no folder
 *   has
 * @throws Error Node's own `ENOENT`, `EACCES` and the like
 */
export function openDduf(path: string | URL, options: OpenDdufOptions = {}): Pipeline<Checkpoint> {
  requireOptions(options, OPEN_DDUF_OPTIONS);
  requireStorageOptions(options);
  const { variant, skipFailed = false } = options;
  requireVariant(variant);
  requireBoolean('skipFailed', skipFailed);
  const label = requirePath('path', path);
  requireLittleEndianHost(label);
  const { archive, indexes } = readModels(label, variant);
  const files: LazyShards[] = [];
  const places = archive.models.map((model) => [model.name, model] as const);
  const opened = openModels(places, skipFailed, (model) => {
    const shards = openModel(archive, model, indexes, options);
    files.push(shards);
    return Checkpoint.of(shards);
  });
  const { missing } = archive;
  return Pipeline.of({ path: label, missing, ...opened, bytes: archiveBytes(archive, files) });
}
