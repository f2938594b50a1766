/** Opens checkpoints: by a folder, an index, a file, or the id of a repository on the Hub. */

import { join } from 'node:path';
import {
  type OptionNames,
  requireOptions,
  requireSignal,
  requireString,
} from '../../errors/arguments.js';
import { statAnything, statPath } from '../../platform/io/file-calls.js';
import { pathText } from '../../platform/io/paths.js';
import { hasCode } from '../../platform/io/system-errors.js';
import type { Tensor } from '../../tensor/tensor.js';
import { runAsync, runSync, type Work } from '../../work/work.js';
import { findInHubCache, isCached, notInCache } from '../cache/cache.js';
import { hubUri, isHubUri, noRevision, parseHubId, revisionOf } from '../hub/ids.js';
import { OPEN_OPTIONS, type OpenOptions, openFile } from '../open.js';
import { isIndexPath, noVariant, requireVariant } from '../shards/file-choice.js';
import { Checkpoint } from './checkpoint.js';
import {
  type CheckpointFiles,
  indexedFiles,
  type SelectOptions,
  selectInFolder,
  singleFile,
  usableNames,
  withIndex,
} from './find-files.js';
import { LazyShards } from './lazy-shards.js';
import { localPipelineError, type PathTo } from './pipeline.js';

/** Codes for an incomplete folder, such as a missing blob behind a link. */
const INCOMPLETE: readonly string[] = [
  'SAFETENSORS_CHECKPOINT_NOT_FOUND',
  'SAFETENSORS_MISSING_SHARDS',
  'ENOENT',
];

/** Options of {@link openCheckpoint} and {@link loadCheckpoint}; options of files apply to every shard. */
export interface OpenCheckpointOptions extends Omit<OpenOptions, 'expectedHash'> {
  /**
   * Opens only files of a variant in a folder: with `fp16`, `model.fp16.safetensors` or the index
   * `model.safetensors.index.fp16.json`. Not needed with the path of a file or an index.
   */
  readonly variant?: string | undefined;
  /** Branch, tag, ref or commit of a repository in the Hub's cache; that of the id, else `main`, by default. */
  readonly revision?: string | undefined;
  /** Longest index accepted, in bytes; 104 857 600 by default. */
  readonly maxIndexByteLength?: number | undefined;
}

// A checkpoint may have several files, and each a hash of its own.
const { expectedHash: _expectedHash, ...OF_EVERY_FILE } = OPEN_OPTIONS;

/** Names of the options. */
export const OPEN_CHECKPOINT_OPTIONS: OptionNames<OpenCheckpointOptions> = {
  ...OF_EVERY_FILE,
  variant: true,
  revision: true,
  maxIndexByteLength: true,
};

/** Options of {@link openCheckpointAsync}. */
export interface OpenCheckpointAsyncOptions extends OpenCheckpointOptions {
  /** Aborts the opening: the promise rejects with `signal.reason`, and nothing stays open. */
  readonly signal?: AbortSignal | undefined;
}

const OPEN_CHECKPOINT_ASYNC_OPTIONS: OptionNames<OpenCheckpointAsyncOptions> = {
  ...OPEN_CHECKPOINT_OPTIONS,
  signal: true,
};

/**
 * Opens a checkpoint: a folder, an index, a single file, or a repository (`org/name`, `name`,
 * `org/name@revision`, `hf://org/name@revision/path`) that is in the Hub's cache on this machine;
 * nothing is downloaded. An existing path wins over a repository of that name.
 *
 * In a folder it takes the index if all its shards are there, else the single file
 * `model.safetensors`, or those of a diffusers model, `diffusion_pytorch_model.safetensors`, else the
 * only index or safetensors file of another name. Shards 1 to n of n without an index are one checkpoint, too;
 * fewer of them are an error, and all are ignored next to the single file that has their name without the numbers.
 * Names match in any case and Unicode normalization. Opening reads and
 * checks the index and looks for the shards, but opens none: headers are checked when a shard is first
 * used, or all by `verify()`. A single file is opened and checked at once; of shards without an index all headers are
 * read. Opening is synchronous: it reads a few files and is as fast as `safeOpen`.
 *
 * @throws FormatError for a bad index or file; `SAFETENSORS_UNSAFE_SHARD_NAME` for shards outside of
 *   the folder, by name or by a symbolic link (links to the blobs of the Hub's cache are allowed);
 *   `SAFETENSORS_DISTRIBUTED_PART`, `SAFETENSORS_DELTA` for files that are not a model
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
  requireOptions(options, OPEN_CHECKPOINT_OPTIONS);
  return runSync(openLazily(path, options));
}

/** Options of the work below. */
interface InternalOptions extends OpenCheckpointOptions {
  /** Whether to accept files that are not a model, to inspect them. */
  readonly acceptsIncomplete?: boolean | undefined;
}

/** As {@link openCheckpoint}, and accepts parts of distributed checkpoints and deltas, to inspect them. */
export function openForInspection(path: string, options: OpenCheckpointOptions): Checkpoint {
  return runSync(openLazily(path, { ...options, acceptsIncomplete: true }));
}

/** The steps of `openCheckpoint`. */
function* openLazily(path: string | URL, options: InternalOptions): Work<Checkpoint> {
  return yield* openFound(yield* findCheckpoint(path, options), options);
}

/** Opens a checkpoint whose files were found. */
export function* openFound(found: CheckpointFiles, options: InternalOptions): Work<Checkpoint> {
  const shards = yield* shardsOf(found, options);
  if (shards.files.index === null) shards.open(0);
  return Checkpoint.of(shards);
}

/**
 * As {@link openCheckpoint}, without stalling the event loop, and with every shard opened: files are looked
 * for, opened and read on the thread pool, and long headers and indexes are parsed in parts of a few
 * milliseconds. No later call waits for a header.
 *
 * Errors that `openCheckpoint` throws at the first use of a shard reject here: a bad shard, or one that cannot be
 * opened. Every shard takes a descriptor. An error or an abort leaves nothing open.
 *
 * @throws As {@link openCheckpoint} and {@link safeOpen}, by rejecting; `signal.reason` when it was
 *   aborted
 *
 * @example
 * ```ts
 * const signal = AbortSignal.timeout(60_000);
 * const checkpoint = await openCheckpointAsync('my-model', { signal });
 * console.log(checkpoint.getTensor('norm.weight').shape); // → [ 4 ]
 * checkpoint.close();
 * ```
 */
export async function openCheckpointAsync(
  path: string | URL,
  options: OpenCheckpointAsyncOptions = {},
): Promise<Checkpoint> {
  requireOptions(options, OPEN_CHECKPOINT_ASYNC_OPTIONS);
  requireSignal(options.signal);
  return Checkpoint.of(await runAsync(openShards(path, options), options.signal));
}

/** Finds a checkpoint and opens all of its shards. The caller closes them. */
export function* openShards(path: string | URL, options: OpenCheckpointOptions): Work<LazyShards> {
  return yield* openAllFound(yield* findCheckpoint(path, options), options);
}

/** Opens all shards of a checkpoint whose files were found. The caller closes them. */
export function* openAllFound(
  found: CheckpointFiles,
  options: OpenCheckpointOptions,
): Work<LazyShards> {
  const shards = yield* shardsOf(found, options);
  try {
    yield* shards.openAll();
  } catch (error) {
    shards.close({});
    throw error;
  }
  return shards;
}

/**
 * Returns all tensors of a checkpoint by name, shard by shard: those of the shards, whatever else the index names; of
 * a name in several shards, the one that the index names. Opens the checkpoint, takes all tensors, and closes it, as
 * `loadFile` does. Aliases are left out, as in `keys()`.
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
  requireOptions(options, OPEN_CHECKPOINT_OPTIONS);
  const shards = runSync(shardsOf(runSync(findCheckpoint(path, options)), options));
  try {
    const tensors = takeAll(shards);
    // A buffer made before the shard is closed outlives it.
    for (const tensor of tensors.values()) tensor.buffer;
    shards.close({});
    return tensors;
  } catch (error) {
    // Otherwise unused tensors would keep files open.
    shards.close({ detach: true });
    throw error;
  }
}

/** Every tensor of a shard; of several with one name, the one that the index names. */
function takeAll(shards: LazyShards): Map<string, Tensor> {
  const { index } = shards.files;
  const tensors = new Map<string, Tensor>();
  let shard = 0;
  for (const file of shards) {
    for (const [name, tensor] of file) {
      const isMeant = !tensors.has(name) || index?.shardOf(index.find(name)) === shard;
      if (isMeant) tensors.set(name, tensor);
    }
    shard++;
  }
  return tensors;
}

/** Shards opened with the same options, which may have further ones. */
function* shardsOf(found: CheckpointFiles, options: InternalOptions): Work<LazyShards> {
  const { acceptsIncomplete } = options;
  const files = yield* withIndex(found, options);
  const isIndexed = files.index !== null;
  return new LazyShards(files, (path) => openFile(path, options, { isIndexed, acceptsIncomplete }));
}

/** Finds the files that `openCheckpoint` opens. */
export function* findCheckpoint(
  path: string | URL,
  options: InternalOptions,
): Work<CheckpointFiles> {
  const { variant, revision } = options;
  requireVariant(variant);
  if (revision !== undefined) requireString('revision', revision);
  const text = pathText('path', path);
  if (!(yield* isPath(text))) return yield* findCached(text, options);
  if (revision !== undefined) throw noRevision('a file or folder on this machine', revision);
  return yield* findFiles(text, options);
}

/** Whether the path exists: a path comes before an id. */
function* isPath(text: string): Work<boolean> {
  return !isHubUri(text) && (yield* statAnything(text)) !== undefined;
}

/** Whether a text that is not a path is the id of a cached repository. */
export function* isCachedId(text: string): Work<boolean> {
  const id = isHubUri(text) ? null : parseHubId(text);
  return isHubUri(text) || (id !== null && (yield* isCached(id)));
}

/** Returns the folder of a path, or of an id of a repository in the Hub's cache. */
export function* findFolder(text: string, revision: string | undefined): Work<string> {
  const id = (yield* isPath(text)) ? null : parseHubId(text);
  return id === null ? text : yield* findInHubCache(id, text, revision);
}

/** Finds the files at a path, which is the caller's or, with `label` and `pathTo`, in the cache. */
function* findFiles(
  path: string,
  options: InternalOptions,
  label: string = path,
  pathTo: PathTo = (relative) => join(path, relative),
): Work<CheckpointFiles> {
  if (!(yield* statPath(path)).isDirectory()) {
    if (options.variant !== undefined) throw noVariant('a file', options.variant);
    return isIndexPath(path) ? yield* indexedFiles(path, options) : singleFile(path);
  }
  return yield* filesInFolder(path, yield* usableNames(path), options, label, pathTo);
}

/** Finds the files of the checkpoint in a folder with these names. */
export function* filesInFolder(
  folder: string,
  names: readonly string[],
  options: SelectOptions,
  label: string = folder,
  pathTo: PathTo = (relative) => join(folder, relative),
): Work<CheckpointFiles> {
  const found = yield* selectInFolder(folder, names, options);
  if (!('kind' in found)) return found;
  const pipeline = found.mayBePipeline
    ? yield* localPipelineError(folder, names, label, pathTo)
    : undefined;
  throw pipeline ?? found.errorAt((name) => (name === '' ? folder : join(folder, name)));
}

function* findCached(text: string, options: InternalOptions): Work<CheckpointFiles> {
  const id = parseHubId(text);
  // Not an id either: Node's own error says that nothing is there.
  if (id === null) return yield* findFiles(text, options);
  const found = yield* findInHubCache(id, text, options.revision);
  const wanted = { ...id, revision: revisionOf(id, options.revision) };
  try {
    const pathTo: PathTo = (relative) => hubUri(wanted, relative) ?? join(found, relative);
    return yield* findFiles(found, options, text, pathTo);
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
