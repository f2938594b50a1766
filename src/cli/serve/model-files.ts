/** The files of a local model that are served: weights, index, configuration. */

import { basename, dirname, join } from 'node:path';
import type { SafetensorsError } from '../../errors/errors.js';
import { type CheckpointFiles, insideOf } from '../../file/checkpoint/find-files.js';
import { findSource } from '../../file/checkpoint/find-source.js';
import type { OpenOptions } from '../../file/checkpoint/open.js';
import { readFileHeader } from '../../file/read-header.js';
import { requireModelFile } from '../../file/require-model.js';
import { isOfFile } from '../../file/shards/file-problems.js';
import { incompleteKind } from '../../file/shards/incomplete-models.js';
import { closeFile, NOTHING_THERE, realPath, statAnything } from '../../platform/io/file-calls.js';
import { openRegularFile } from '../../platform/io/opened-file.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { OTHER_CONFIGS } from '../../quantized/plan/configuration.js';
import { call, runAsync, type Work } from '../../work/work.js';
import { foreignFormatError } from '../sources/open-source.js';
import type { VirtualFile } from '../sources/virtual-file.js';

/** The caller's choice in a folder, or a repository of the cache. */
export type SourceChoice = Pick<OpenOptions, 'variant' | 'revision'>;

/**
 * Sibling files that readers request: they specify how weights are quantized, how to count parameters, and the scale of
 * adapters.
 */
const CONFIGS: readonly string[] = ['config.json', 'adapter_config.json', ...OTHER_CONFIGS];

/** One file. */
export interface ServedFile {
  /** Its path below the folder of the source, with slashes. */
  readonly name: string;
  /** Its path with all links followed. */
  readonly path: string;
  /** Instead of its bytes those of a safetensors file, for a file of another format. */
  readonly virtual?: VirtualFile;
}

/** A model: a file, or the files of a checkpoint. */
export interface ServedSource {
  /** Names it for people. */
  readonly name: string;
  readonly files: readonly ServedFile[];
  /** Shards that the index names, and that are missing. */
  readonly missing: readonly string[];
}

/** A path without a model: of another format, or a folder that may still contain models. */
export interface NoModelFound {
  /** The error of opening it as a model. */
  readonly error: SafetensorsError;
}

/**
 * The model at a path or an id, or those of a pipeline. Reads indexes, and opens files of weights without reading them.
 *
 * @throws As `safeOpen`, but not for missing shards; SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`
 */
export async function modelsAt(
  name: string,
  path: string,
  choice: SourceChoice,
  signal: AbortSignal,
): Promise<ServedSource[] | NoModelFound> {
  const { variant, revision } = choice;
  // These choose among files of safetensors.
  if (variant === undefined && revision === undefined) {
    const error = await foreignFormatError(path);
    if (error !== undefined) return { error };
  }
  return await runAsync(servedModels(name, path, choice), signal);
}

function* servedModels(
  name: string,
  path: string,
  { variant, revision }: SourceChoice,
): Work<ServedSource[] | NoModelFound> {
  const found = yield* findSource(path, { variant, revision });
  if ('files' in found) return [yield* servedModel(name, found.files)];
  if (found.kind === 'none' || found.kind === 'outside') return found;
  if (found.kind !== 'pipeline') throw found.error;
  const { findComponent, findModels } = yield* call({ async: loadPipelines });
  const sources: ServedSource[] = [];
  const { models } = yield* findModels(found.path, variant);
  let lacking: SafetensorsError | undefined;
  for (const model of models) {
    const component = yield* findComponent(found.path, model, {});
    if ('files' in component) {
      sources.push(yield* servedModel(`${name}/${model.name}`, component.files));
    } else if (component.kind === 'none') {
      // Weights of other formats only, or no choice among several: the other models are still served.
      lacking ??= component.error;
    } else {
      throw component.error;
    }
  }
  if (sources.length === 0 && lacking !== undefined) return { error: lacking };
  return sources;
}

/** Loaded for a pipeline only. */
const loadPipelines = () => import('../../file/checkpoint/open-pipeline.js');

function* servedModel(name: string, found: CheckpointFiles): Work<ServedSource> {
  const { path, index, shards } = found;
  if (index === null) {
    for (const shard of shards) yield* requireServable(shard.path);
  }
  const files: ServedFile[] = [];
  const missing: string[] = [];
  if (index !== null) files.push(yield* servedFile(basename(path), path));
  for (const shard of shards) {
    try {
      files.push(yield* servedFile(shard.name, shard.path));
    } catch (error) {
      if (index === null || !hasCode(error, NOTHING_THERE)) throw error;
      missing.push(shard.name);
    }
  }
  const folder = dirname(path);
  const isInside = yield* insideOf(folder);
  for (const config of CONFIGS) {
    const sibling = join(folder, config);
    const isFile = (yield* statAnything(sibling))?.isFile() === true;
    if (isFile && (yield* isInside(sibling))) files.push(yield* servedFile(config, sibling));
  }
  return { name, files, missing };
}

/** Throws for a file that is not a model. The page shows what else is wrong with a header. */
function* requireServable(path: string): Work<void> {
  const file = yield* openRegularFile(path, path);
  try {
    const { header } = yield* readFileHeader(file);
    yield* requireModelFile({ header, file, path });
  } catch (error) {
    if (incompleteKind(error) !== undefined || !isOfFile(error)) throw error;
  } finally {
    yield* closeFile(file.fd);
  }
}

/** Throws now for a file that cannot be read, which requests would not find. */
function* servedFile(name: string, path: string): Work<ServedFile> {
  const { fd } = yield* openRegularFile(path, path);
  yield* closeFile(fd);
  return { name, path: yield* realPath(path) };
}
