/** Opens checkpoints: a folder, an index, a file, bytes, or a repository in the Hub cache. */

import {
  argumentRangeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
  requireSignal,
} from '../../errors/arguments.js';
import { isUint8Array, isUrl } from '../../errors/brand-checks.js';
import { identityOf, statExactly } from '../../platform/io/file-calls.js';
import { type PathOrDescriptor, requirePath } from '../../platform/io/paths.js';
import { hasCode } from '../../platform/io/system-errors.js';
import type { StorageOptions } from '../../platform/storage/open.js';
import type { Tensor } from '../../tensor/tensor.js';
import { runAsync, runSync, type Work } from '../../work/work.js';
import type { SafetensorsFile } from '../file.js';
import type { HashCheckOptions } from '../hash-check.js';
import { isHubUri, noRevision, parseHubId } from '../hub/ids.js';
import { FILE_OPTIONS, fileOf, openFile, openUnlessFolder, type ParseOptions } from '../open.js';
import type { ParseIndexOptions } from '../shards/checkpoint-index.js';
import { isIndexPath, noVariant } from '../shards/file-choice.js';
import { Checkpoint } from './checkpoint.js';
import { type CheckpointFiles, singleFile, unplacedFile, withIndex } from './find-files.js';
import { findSource, modelFiles } from './find-source.js';
import { LazyShards } from './lazy-shards.js';

/** Options of {@link safeOpen} and {@link loadFile}; those of files apply to every shard. */
export interface OpenOptions extends ParseOptions, StorageOptions, HashCheckOptions {
  /**
   * Opens only files of a variant in a folder: with `fp16`, `model.fp16.safetensors` or the index
   * `model.safetensors.index.fp16.json`. Not needed with the path of a file or an index.
   */
  readonly variant?: string | undefined;
  /** Branch, tag, ref or commit of a repository in the Hub cache; that of the id, else `main`, by default. */
  readonly revision?: string | undefined;
}

/** Names of the options. */
export const OPEN_OPTIONS: OptionNames<OpenOptions> = {
  ...FILE_OPTIONS,
  variant: true,
  revision: true,
};

/** Options of {@link safeOpen}. */
export interface SafeOpenOptions extends OpenOptions {
  /**
   * True makes `ok` also false once a path of the checkpoint's files, or of its index, leads to another file, as after
   * a rename over it or the switch of a symbolic link. Every use of `ok` then asks the system about each file. Tensors
   * still have the bytes of the file that was opened. Only for paths.
   */
  readonly checkPath?: boolean | undefined;
}

const SAFE_OPEN_OPTIONS: OptionNames<SafeOpenOptions> = { ...OPEN_OPTIONS, checkPath: true };

/** The limit for an index, where a caller has one. */
export type IndexLimit = Pick<ParseIndexOptions, 'maxIndexByteLength'>;

/** Options of {@link safeOpenAsync}. */
export interface OpenAsyncOptions extends SafeOpenOptions {
  /** Aborts the opening: the promise rejects with `signal.reason`, and nothing stays open. */
  readonly signal?: AbortSignal | undefined;
}

/** Names of the options. */
export const OPEN_ASYNC_OPTIONS: OptionNames<OpenAsyncOptions> = {
  ...SAFE_OPEN_OPTIONS,
  signal: true,
};

/**
 * Opens a local safetensors checkpoint: a file, a folder, an index, or a repository (`org/name`, `name`,
 * `org/name@revision`, `hf://org/name@revision/path`) in the Hub cache. An existing path wins over a repository of that
 * name. Makes no request, and reads no other format. Close the handle, or declare it with `using`.
 *
 * Reads and checks the whole header of a file, and maps the file; its data is read only for `verify` and
 * `expectedHash`. Of a sharded checkpoint it reads and checks the index, and looks for the shards, but opens none:
 * a shard's header is checked on first use, and every header by `verify()`. Without an index, it reads all headers.
 * With the option `verify` it opens all shards.
 *
 * In a folder it takes the index if all its shards are there, else the single file `model.safetensors`, or those of a
 * Diffusers model, `diffusion_pytorch_model.safetensors`, else the only index or safetensors file of another name.
 * Shards 1 to n of n without an index are one checkpoint, too; fewer of them are an error, and all are ignored next to
 * the single file that has their name without the numbers. Names match in any case and Unicode normalization.
 *
 * A descriptor or `FileHandle` stays the caller's, and its position does not move; messages name it `descriptor 3`. A
 * mapped file no longer needs it when the call returns. A file that is read (`storage: 'read'`, or no mapping) needs it
 * until its last tensor is read.
 *
 * @throws FormatError for a bad file or index, with the format that was found; `SAFETENSORS_CHECKSUM_MISMATCH` for
 *   bytes that do not match the requested hashes; `SAFETENSORS_UNSAFE_SHARD_NAME` for shards outside of
 *   the folder, by name or by a symbolic link (links to the blobs of the Hub cache are allowed);
 *   `SAFETENSORS_DISTRIBUTED_PART`, `SAFETENSORS_DELTA` for files that are not a model
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS` with all that are missing, `SAFETENSORS_CHECKPOINT_NOT_FOUND`,
 *   `SAFETENSORS_NOT_IN_CACHE`, `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_MAPPING_UNAVAILABLE`;
 *   `SAFETENSORS_DIFFUSERS_PIPELINE` for a folder of several models, with the call that opens each
 * @throws Error Node's own `ENOENT`, `EACCES`, `ENOMEM` and the like; `EBADF` for a closed descriptor
 *
 * @example
 * ```ts
 * const file = safeOpen('model.safetensors');
 * console.log(file.keys()); // → [ 'embed.weight', 'norm.weight' ]
 * file.close();
 *
 * const model = safeOpen('my-model'); // a folder
 * console.log(model.shards.length, model.getTensor('norm.weight').shape); // → 2 [ 4 ]
 * model.close();
 * ```
 */
export function safeOpen(path: PathOrDescriptor, options: SafeOpenOptions = {}): Checkpoint {
  requireOptions(options, SAFE_OPEN_OPTIONS);
  if (checksPath(path, options)) return runSync(openCurrent(path, options, openFound));
  return Checkpoint.of(runSync(openLazily(path, options)));
}

/** Whether `ok` looks at the paths. Throws for an unusable option. */
export function checksPath(
  path: PathOrDescriptor,
  { checkPath = false }: SafeOpenOptions,
): path is string | URL {
  requireBoolean('checkPath', checkPath);
  if (checkPath && typeof path !== 'string' && !isUrl(path)) {
    throw argumentRangeError('checkPath', 'left out for a descriptor', checkPath);
  }
  return checkPath;
}

/** Opens a checkpoint that notices when its paths lead to other files. */
function* openCurrent(
  path: string | URL,
  options: OpenOptions,
  open: typeof openFound,
): Work<Checkpoint> {
  let files = modelFiles(yield* findSource(path, options));
  let identities = yield* identitiesOf(files);
  // The index was read before its identity: it must not have been replaced in between.
  for (let before = ''; before !== identities; ) {
    before = identities;
    files = modelFiles(yield* findSource(path, options));
    identities = yield* identitiesOf(files);
  }
  const isCurrent = (): boolean => runSync(identitiesOf(files)) === identities;
  return Checkpoint.of(yield* open(files, options), { isCurrent });
}

/** Identifies the files to which the paths of a checkpoint lead. */
function* identitiesOf({ path, shards }: CheckpointFiles): Work<string> {
  let identities = '';
  for (const at of [path, ...shards.map((shard) => shard.path)]) {
    const stats = yield* statExactly(at);
    identities += `${stats === undefined ? '' : identityOf(stats)},`;
  }
  return identities;
}

/** Options of the work below. */
interface InternalOptions extends OpenOptions {
  /** Whether to accept files that are not a model, to inspect them. */
  readonly acceptsIncomplete?: boolean | undefined;
}

/** As {@link safeOpen}, and accepts parts of distributed checkpoints and deltas, to inspect them. */
export function openForInspection(path: string, options: OpenOptions): Checkpoint {
  return Checkpoint.of(runSync(openLazily(path, { ...options, acceptsIncomplete: true })));
}

/** Opens a file; of several shards none. */
function* openLazily(path: PathOrDescriptor, options: InternalOptions): Work<LazyShards> {
  const only = yield* openOnly(path, options);
  if (only !== undefined) return only;
  return yield* openFound(modelFiles(yield* findSource(path as string | URL, options)), options);
}

/** Opens a file that is the whole checkpoint. Undefined for a folder, an index, and an id in the cache. */
function* openOnly(path: PathOrDescriptor, options: InternalOptions): Work<LazyShards | undefined> {
  const { variant, revision, acceptsIncomplete } = options;
  if (typeof path !== 'string' && !isUrl(path)) {
    if (variant !== undefined) throw noVariant('a descriptor', variant);
    if (revision !== undefined) throw noRevision('a descriptor', revision);
    const file = yield* openFile(path, options, { acceptsIncomplete });
    const label = file.path as string;
    return ofOne(isUint8Array(path) ? singleFile(label) : unplacedFile(label), file);
  }
  const text = requirePath('path', path);
  const isOther = isHubUri(text) || isIndexPath(text);
  if (isOther || variant !== undefined || revision !== undefined) return undefined;
  try {
    const file = yield* openUnlessFolder(text, options, { acceptsIncomplete });
    return file && ofOne(singleFile(text), file);
  } catch (error) {
    if (hasCode(error, ['ENOENT']) && parseHubId(text) !== null) return undefined;
    throw error;
  }
}

/** A checkpoint of one open file. */
function ofOne(files: CheckpointFiles, file: SafetensorsFile): LazyShards {
  return LazyShards.ofOpen(files, [[0, file]]);
}

/** Opens a checkpoint whose files were found: of several shards none, unless all digests are compared. */
export function* openFound(found: CheckpointFiles, options: InternalOptions): Work<LazyShards> {
  if (options.verify === true) return yield* openAllFound(found, options);
  const shards = yield* shardsOf(found, options);
  if (shards.files.index === null) shards.open(0);
  return shards;
}

/**
 * As {@link safeOpen}, without stalling the event loop, and with every shard opened: files are looked for, opened and
 * read on the thread pool, and long headers and indexes are parsed in parts of a few milliseconds. No later call waits
 * for a header.
 *
 * Errors that `safeOpen` throws at the first use of a shard reject here: a bad shard, or one that cannot be opened.
 * Every shard takes a descriptor. After an abort the system call under way finishes; then the promise rejects, and
 * nothing stays open.
 *
 * @throws As {@link safeOpen}, by rejecting; `signal.reason` when it was aborted
 *
 * @example
 * ```ts
 * const signal = AbortSignal.timeout(60_000);
 * const checkpoint = await safeOpenAsync('my-model', { signal });
 * console.log(checkpoint.getTensor('norm.weight').shape); // → [ 4 ]
 * checkpoint.close();
 * ```
 */
export async function safeOpenAsync(
  path: PathOrDescriptor,
  options: OpenAsyncOptions = {},
): Promise<Checkpoint> {
  requireOptions(options, OPEN_ASYNC_OPTIONS);
  const { signal } = options;
  requireSignal(signal);
  if (checksPath(path, options)) {
    return await runAsync(openCurrent(path, options, openAllFound), signal);
  }
  return Checkpoint.of(await runAsync(openWhole(path, options), signal));
}

function* openWhole(path: PathOrDescriptor, options: OpenOptions): Work<LazyShards> {
  const only = yield* openOnly(path, options);
  return only ?? (yield* openShards(path as string | URL, options));
}

/**
 * Opens a whole file in memory, as a checkpoint. The header is copied. Tensors are views of `bytes`: writing to one
 * changes `bytes`.
 *
 * @throws FormatError when the bytes are not valid safetensors
 *
 * @example
 * ```ts
 * import { readFileSync } from 'node:fs';
 *
 * const file = parse(readFileSync('model.safetensors'));
 * console.log(file.storage, file.size); // → memory 2
 * ```
 */
export function parse(bytes: Uint8Array, options: ParseOptions = {}): Checkpoint {
  return Checkpoint.of(ofOne(unplacedFile(''), fileOf(bytes, options)));
}

/** Finds a checkpoint and opens all of its shards. The caller closes them. */
export function* openShards(
  path: string | URL,
  options: OpenOptions & IndexLimit,
): Work<LazyShards> {
  return yield* openAllFound(modelFiles(yield* findSource(path, options)), options);
}

/** Opens all shards of a checkpoint whose files were found. The caller closes them. */
export function* openAllFound(found: CheckpointFiles, options: OpenOptions): Work<LazyShards> {
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
 * Returns all tensors of anything that {@link safeOpen} opens, by name, shard by shard, in the order of their bytes:
 * those of the shards, whatever else the index names; of a name in several shards, the one that the index names.
 * Opens it, takes all tensors, and closes it. Over a mapping nothing is copied: pages are read when they are touched,
 * and the mapping lasts until the last tensor is collected. Aliases are left out, as in `keys()`.
 *
 * @throws As {@link safeOpen}, and `SAFETENSORS_TENSOR_TOO_LARGE` for a tensor that does not fit into
 *   one buffer of this runtime: use `safeOpen` and `chunks()` instead; `SAFETENSORS_OUT_OF_MEMORY`
 *   where tensors are read
 *
 * @example
 * ```ts
 * const tensors = loadFile('model.safetensors');
 * console.log(tensors.get('norm.weight')?.data); // → Float32Array(4) [ 0, 0, 0, 0 ]
 * ```
 */
export function loadFile(path: PathOrDescriptor, options: OpenOptions = {}): Map<string, Tensor> {
  requireOptions(options, OPEN_OPTIONS);
  const shards = runSync(openLazily(path, options));
  try {
    const tensors = takeAll(shards);
    // A tensor too long for a buffer throws now, and tensors of a reading storage are read.
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
  const { expectedHash } = options;
  if (expectedHash !== undefined && files.shards.length > 1) {
    const expected = 'left out for several files, each of which has its own hash';
    throw argumentRangeError('expectedHash', expected, expectedHash);
  }
  const isIndexed = files.index !== null;
  return new LazyShards(files, (path) => openFile(path, options, { isIndexed, acceptsIncomplete }));
}
