/** `reshard`: a checkpoint in other files. */

import { type OptionNames, requireOptions } from '../../errors/arguments.js';
import type { TensorInfo } from '../../file/source/facts.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { readSelection, SELECTION_OPTIONS, type SelectionOptions } from '../selection/options.js';
import type { SelectionReport } from '../selection/selection-report.js';
import {
  WRITE_OPTIONS,
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
} from './execute-plan.js';
import { type CheckpointLayoutOptions, LAYOUT_OPTIONS } from './layout.js';
import type { CopiedFiles, OtherFilesOptions } from './other-files.js';
import type { CheckpointPlan, DryRun, MaybeDryRun } from './plan.js';
import { rewriteFolder } from './rewrite.js';
import { openSafetensorsSource } from './safetensors-source.js';
import type { CheckpointSource } from './source.js';

/** Options of {@link reshard}; those of the layout are the target's. */
export interface ReshardOptions
  extends CheckpointLayoutOptions,
    WriteCheckpointOptions,
    SelectionOptions,
    OtherFilesOptions {}

const RESHARD_OPTIONS: OptionNames<ReshardOptions> = {
  ...LAYOUT_OPTIONS,
  ...WRITE_OPTIONS,
  ...SELECTION_OPTIONS,
  copyOtherFiles: true,
};

/** Result of {@link reshard}. */
export interface ReshardedCheckpoint extends WrittenCheckpoint, SelectionReport, CopiedFiles {
  /** Keys of metadata for which files of the source have different values that were not all kept. */
  readonly conflicts: readonly string[];
}

/** The same with `dryRun: true`: without what only a cast finds out. */
export interface ReshardPlan
  extends CheckpointPlan,
    Omit<ReshardedCheckpoint, keyof WrittenCheckpoint | 'overflowed'> {}

/**
 * Writes a checkpoint into a folder in files of another size: splits, merges (`maxShardSize:
 * Infinity` gives one file) or both. `source` is anything that `openCheckpoint` opens. The target may
 * be the folder of the source: the new files replace the old ones as in `saveCheckpoint`, which locks the
 * target, too.
 *
 * Tensors keep name, dtype, shape and bytes, shard by shard in the order of each file. A tensor that
 * a shard has and the index does not name is kept, too. The kernel copies the bytes from file to file,
 * neighbours together; short tensors from many places go through buffers of 4 MiB. Besides these,
 * memory is needed only for the old and new headers and the index: about 1.1 kB for a tensor with a
 * name of 50 characters.
 *
 * Metadata: the keys of an index stay in the new index, with values of any type, and `total_size` is
 * computed anew. Merged into a single file they become strings, values that are not strings as their
 * JSON text, without `total_size`. When a single file is split, its metadata goes into the index, and
 * its `format` also into every shard. A key of the shards goes into every new file if all shards that
 * have it agree on its value, and is dropped if they don't. In a single file, shards win over the
 * index. Aliases stay aliases.
 *
 * With `names`, `rename`, `dtype` or `select` only some tensors are taken, or under other names, or as
 * another dtype. They are cast on the thread pool, a megabyte at a time, rounded as torch does it.
 * Memory is then needed for every tensor's name and facts. The files beside the weights are copied as
 * they are: a `config.json` still names the old dtype. An alias goes with its tensor.
 *
 * With `copyOtherFiles` the target is a model that other programs load. From the folder of the index or
 * single file it takes all files but weights of any format (`.safetensors`, `.bin`, `.gguf`, `.onnx` …),
 * their indexes, and names that begin with a dot. Folders within are left out. In a snapshot of the Hub's
 * cache it follows the links to the blobs. As with `cp`, a file of that name in the target is replaced. Until
 * the new checkpoint is in place, the old one keeps its files.
 *
 * @throws As `openCheckpoint` and `saveCheckpoint`; FormatError `SAFETENSORS_INDEX_MISMATCH` when the
 *   index names a tensor that is not there; `SAFETENSORS_UNSAFE_SHARD_NAME` also for a link out of the
 *   folder among the other files, FileChangedError when one of them changes while it is copied
 * @throws TensorNotFoundError for a name that there is not, InvalidTensorError for a name that two tensors get,
 *   SafetensorsError `SAFETENSORS_DTYPE_MISMATCH` for a cast that there is not, SelectionError for several
 *   of these; all before anything is written
 *
 * @example
 * ```ts
 * const options = { maxShardSize: Infinity, copyOtherFiles: true };
 * const { files, copied } = await reshard('my-model', 'merged', options);
 * console.log(files, copied); // → [ 'model.safetensors' ] [ 'config.json' ]
 *
 * const { cast, overflowed } = await reshard('my-model', 'half', { dtype: 'F16' });
 * console.log(cast, overflowed.size); // → [ 'embed.weight', 'norm.weight' ] 0
 * ```
 */
export async function reshard(
  source: string | URL,
  target: string | URL,
  options?: ReshardOptions,
): Promise<ReshardedCheckpoint>;
/**
 * The same as a dry run: says what would be written, and writes nothing.
 *
 * @throws As without `dryRun`
 *
 * @example
 * ```ts
 * const options = { maxShardSize: Infinity, dryRun: true } as const;
 * const { files, deleted } = await reshard('my-model', 'my-model', options);
 * console.log(files.length, deleted.length); // → 1 3
 * ```
 */
export async function reshard(
  source: string | URL,
  target: string | URL,
  options: Omit<ReshardOptions, 'dryRun'> & DryRun,
): Promise<ReshardPlan>;
/**
 * The same, where only the running program knows whether it is a dry run.
 *
 * @throws As without `dryRun`
 *
 * @example
 * ```ts
 * const dryRun = process.env['DRY_RUN'] !== undefined;
 * const { totalSize } = await reshard('my-model', 'written-or-not', { dryRun });
 * console.log(totalSize); // → 80
 * ```
 */
export async function reshard(
  source: string | URL,
  target: string | URL,
  options: Omit<ReshardOptions, 'dryRun'> & MaybeDryRun,
): Promise<ReshardedCheckpoint | ReshardPlan>;
export async function reshard(
  source: string | URL,
  target: string | URL,
  options: Omit<ReshardOptions, 'dryRun'> & MaybeDryRun = {},
): Promise<ReshardedCheckpoint | ReshardPlan> {
  requireLittleEndianHost();
  requireOptions(options, RESHARD_OPTIONS);
  const selection = readSelection(options);
  const { signal } = options;
  const open = (): Promise<CheckpointSource<TensorInfo>> =>
    openSafetensorsSource(source, { isNamed: false, signal });
  const choices = { selection, shared: 'copy', metadata: new Map(), verify: false } as const;
  const result = await rewriteFolder(target, open, { ...options, ...choices });
  const { dropped, unrecorded, overlaps, ...resharded } = result;
  return resharded;
}
