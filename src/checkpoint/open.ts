/** Opens checkpoints: by a folder, an index, a file, or the id of a repository on the Hub. */

import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type OptionNames, requireOptions, requireString } from '../errors/arguments.js';
import { OPEN_OPTIONS, type OpenOptions } from '../file/open.js';
import { findInHubCache, notInCache } from '../hub/cache.js';
import { hubUri, isHubUri, parseHubId } from '../hub/ids.js';
import { pathText } from '../io/paths.js';
import { hasCode } from '../io/system-errors.js';
import type { Tensor } from '../tensor/tensor.js';
import { Catalog } from './catalog.js';
import { Checkpoint } from './checkpoint.js';
import { type CheckpointFiles, indexedFiles, selectInFolder, singleFile } from './find-files.js';
import { LazyShards } from './lazy-shards.js';
import { type PathTo, pipelineError } from './pipeline.js';

/** Codes for a folder in which something is missing, such as the blob behind a link. */
const INCOMPLETE: readonly string[] = [
  'SAFETENSORS_CHECKPOINT_NOT_FOUND',
  'SAFETENSORS_MISSING_SHARDS',
  'ENOENT',
];

/** Options of {@link openCheckpoint} and {@link loadCheckpoint}; options of files apply to every shard. */
export interface OpenCheckpointOptions extends OpenOptions {
  /**
   * Opens only files of a variant in a folder: with `fp16`, `model.fp16.safetensors` or the index
   * `model.safetensors.index.fp16.json`. Not needed with the path of a file or an index.
   */
  readonly variant?: string | undefined;
  /** Branch, tag, ref or commit of a repository in the Hub's cache; `main` by default. */
  readonly revision?: string | undefined;
  /** Longest index accepted, in bytes; 104 857 600 by default. */
  readonly maxIndexByteLength?: number | undefined;
}

const OPEN_CHECKPOINT_OPTIONS: OptionNames<OpenCheckpointOptions> = {
  ...OPEN_OPTIONS,
  variant: true,
  revision: true,
  maxIndexByteLength: true,
};

/**
 * Opens a checkpoint: a folder, an index, a single file, or a repository (`org/name`, `name`,
 * `org/name@revision`, `hf://org/name@revision/path`) that is in the Hub's cache on this machine;
 * nothing is downloaded. An existing path wins over a repository of that name.
 *
 * In a folder it takes the index if all its shards are there, else the single file
 * `model.safetensors`, or those of a diffusers model, `diffusion_pytorch_model.safetensors`, else the
 * only index or safetensors file of another name. Shards without an
 * index are ignored beside the single file that has their name without the numbers. Opening reads and
 * checks the index and looks for the shards, but opens none: headers are checked when a shard is first
 * used, or all by `verify()`. A single file is opened and checked at once. Opening is synchronous: it
 * reads a few files and is as fast as `safeOpen`.
 *
 * @throws FormatError for a bad index or file; `SAFETENSORS_UNSAFE_SHARD_NAME` for shards outside of
 *   the folder, by name or by a symbolic link (links to the blobs of the Hub's cache are allowed)
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS` with all that are missing,
 *   `SAFETENSORS_CHECKPOINT_NOT_FOUND`, `SAFETENSORS_NOT_IN_CACHE`; `SAFETENSORS_DIFFUSERS_PIPELINE` for
 *   a folder of several models, with the call that opens each
 * @throws Error Node's own `ENOENT`, `EACCES` and the like
 *
 * @example
 * ```ts
 * const checkpoint = openCheckpoint('my-model');
 * console.log(checkpoint.keys()); // → [ 'embed.weight', 'norm.weight' ]
 * checkpoint.close();
 * ```
 */
export function openCheckpoint(
  path: string | URL,
  options: OpenCheckpointOptions = {},
): Checkpoint {
  const shards = new LazyShards(findCheckpoint(path, options), options);
  if (shards.files.index === null) shards.open(0);
  return Checkpoint.of(shards);
}

/**
 * All tensors of a checkpoint by name, shard by shard: those that the shards have, whatever else the
 * index names; of a name that is in several shards, the one that the index means. Opens the checkpoint,
 * takes all tensors, and closes it, as `loadFile` does. Aliases are left out, as in `keys()`.
 *
 * @throws As {@link openCheckpoint}, and `SAFETENSORS_TENSOR_TOO_LARGE` as `loadFile`
 *
 * @example
 * ```ts
 * const tensors = loadCheckpoint('my-model');
 * console.log(tensors.get('embed.weight')?.shape); // → [ 8, 4 ]
 * ```
 */
export function loadCheckpoint(
  path: string | URL,
  options: OpenCheckpointOptions = {},
): Map<string, Tensor> {
  const shards = new LazyShards(findCheckpoint(path, options), options);
  try {
    const tensors = new Catalog(shards).takeAll();
    // A buffer that is made before the shard is closed outlives it.
    for (const tensor of tensors.values()) tensor.buffer;
    return tensors;
  } finally {
    shards.close({});
  }
}

/** The files that `openCheckpoint` opens. */
export function findCheckpoint(
  path: string | URL,
  options: OpenCheckpointOptions,
): CheckpointFiles {
  checkOptions(options);
  const text = pathText('path', path);
  const isPath = !isHubUri(text) && statSync(text, { throwIfNoEntry: false }) !== undefined;
  return isPath ? findFiles(text, options) : findCached(text, options);
}

function checkOptions(options: OpenCheckpointOptions): void {
  requireOptions(options, OPEN_CHECKPOINT_OPTIONS);
  for (const name of ['variant', 'revision'] as const) {
    const value = options[name];
    if (value !== undefined) requireString(name, value);
  }
}

/** What exists at a path, which is the caller's or, with `label` and `pathTo`, in the cache. */
function findFiles(
  path: string,
  options: OpenCheckpointOptions,
  label: string = path,
  pathTo: PathTo = (relative) => join(path, relative),
): CheckpointFiles {
  if (!statSync(path).isDirectory()) {
    return path.endsWith('.json') ? indexedFiles(path, options) : singleFile(path);
  }
  try {
    return selectInFolder(path, options);
  } catch (error) {
    if (!hasCode(error, ['SAFETENSORS_CHECKPOINT_NOT_FOUND'])) throw error;
    throw pipelineError(path, label, pathTo) ?? error;
  }
}

function findCached(text: string, options: OpenCheckpointOptions): CheckpointFiles {
  const id = parseHubId(text);
  // Not an id either: Node's own error says that nothing is there.
  if (id === null) return findFiles(text, options);
  const found = findInHubCache(id, text, options.revision);
  const wanted = { ...id, revision: options.revision ?? id.revision };
  try {
    const pathTo: PathTo = (relative) => hubUri(wanted, relative) ?? join(found, relative);
    return findFiles(found, options, text, pathTo);
  } catch (error) {
    if (!hasCode(error, INCOMPLETE)) throw error;
    throw notInCache(
      wanted,
      text,
      `the Hub's cache is incomplete: ${(error as Error).message}`,
      error,
    );
  }
}
