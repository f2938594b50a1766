/** `saveCheckpoint`: writes a state dict as one file, or as shards with an index. */

import {
  argumentRangeError,
  type OptionNames,
  requireOptions,
  requirePathFirst,
} from '../../errors/arguments.js';
import { pairsOf } from '../../errors/named-values.js';
import { checkpointMetadata } from '../../file/shards/metadata.js';
import {
  planSharing,
  type SharedMode,
  type SharingPlan,
} from '../../file/shards/shared-tensors.js';
import { type Dtype, requireLittleEndianHost } from '../../header/dtype.js';
import { encodeMetadata, type MetadataInput } from '../../header/header-writer.js';
import { runSync } from '../../work/work.js';
import { type NamedTensors, readTensorsAndStreams } from '../input/tensor-input.js';
import {
  WRITE_OPTIONS,
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from './execute-plan.js';
import {
  type CheckpointLayoutOptions,
  LAYOUT_OPTIONS,
  layOutCheckpoint,
  tableOf,
} from './layout.js';
import { inLockedFolder } from './locked-folder.js';
import {
  type CheckpointPlan,
  type DryRun,
  type MaybeDryRun,
  planCheckpoint,
  type SharedTensors,
} from './plan.js';
import { memoryOfEntry } from './tensor-memory.js';

/** Options of {@link saveCheckpoint}. */
export interface SaveCheckpointOptions extends CheckpointLayoutOptions, WriteCheckpointOptions {
  /**
   * Strings by key. In a single file they stand beside `format: pt`, which they may overwrite; with several files
   * they go into the index, after `total_size`.
   */
  readonly metadata?: MetadataInput | null | undefined;
  /**
   * How to write tensors that share memory. The default `copy` writes all, so every reader finds every name. `dedupe`
   * writes equal tensors once and records the other names in the metadata, where `openCheckpoint` and other readers
   * that support this find them.
   */
  readonly shared?: SharedMode | undefined;
}

const SAVE_CHECKPOINT_OPTIONS: OptionNames<SaveCheckpointOptions> = {
  ...LAYOUT_OPTIONS,
  ...WRITE_OPTIONS,
  metadata: true,
  shared: true,
};

/** Result of {@link saveCheckpoint}. */
export interface SavedCheckpoint extends WrittenCheckpoint, SharedTensors {}

/** Result of {@link saveCheckpoint} with `dryRun: true`. */
export interface SaveCheckpointPlan extends CheckpointPlan, SharedTensors {}

/**
 * Writes a state dict into a folder, off the event loop: as `model.safetensors`, or in shards with an index when it
 * is larger than `maxShardSize`. Files and index are those of `huggingface_hub`. A missing folder is created, with
 * its parents.
 *
 * Everything is written to temporary files first. Then the new files are renamed into place: at every moment the folder
 * has a whole checkpoint, the old one or the new one, even if their files have the same names. A save that fails before
 * that leaves the old one. A killed process leaves one of the two, and temporary files, which the next save deletes.
 * Last, files of the checkpoint that it replaces are deleted: the index and its shards, or the single file, and only
 * those that match the pattern. `replaced` lists every file that existed and is gone. The disk needs room for both
 * checkpoints. Links in the folder are replaced, not followed. Files that are open or mapped keep their content, even
 * when the tensors come from them.
 *
 * At most two files are under way at a time, with two pieces in all. Tensors and streams are as in `saveFile`;
 * streams are read in the order of the files. Saves into one folder wait for each other; for those of other processes
 * and threads, up to `lockTimeout`. The lock ends at the latest when the process dies. On a file system without locks
 * (NFS), or without the addon, don't run two saves at the same time.
 *
 * @throws As `saveFile`, and `SAFETENSORS_LOCKED`, and `SAFETENSORS_SHARED_TENSORS` with `error` and `python`;
 *   RangeError also for an empty state dict; FormatError `SAFETENSORS_INDEX_TOO_LARGE`
 *
 * @example
 * ```ts
 * const tensors = loadFile('model.safetensors');
 * const { files, index } = await saveCheckpoint('saved', tensors, { maxShardSize: '64B' });
 * console.log(files.length, index); // → 2 model.safetensors.index.json
 * ```
 */
export async function saveCheckpoint<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(
  folder: string | URL,
  tensors: NamedTensors<D, ByName>,
  options?: SaveCheckpointOptions,
): Promise<SavedCheckpoint>;
/**
 * As a dry run: returns the plan and writes nothing.
 *
 * @throws As without `dryRun`
 *
 * @example
 * ```ts
 * const tensors = loadFile('model.safetensors');
 * const options = { maxShardSize: '64B', dryRun: true } as const;
 * const { files, totalSize } = await saveCheckpoint('planned', tensors, options);
 * console.log(files[0]?.tensors, totalSize); // → [ 'norm.weight' ] 80
 * ```
 */
export async function saveCheckpoint<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(
  folder: string | URL,
  tensors: NamedTensors<D, ByName>,
  options: Omit<SaveCheckpointOptions, 'dryRun'> & DryRun,
): Promise<SaveCheckpointPlan>;
/**
 * As above, for a `dryRun` known only at run time.
 *
 * @throws As without `dryRun`
 *
 * @example
 * ```ts
 * const dryRun = process.env['DRY_RUN'] !== undefined;
 * const tensors = loadFile('model.safetensors');
 * const { totalSize } = await saveCheckpoint('saved-or-not', tensors, { dryRun });
 * console.log(totalSize); // → 80
 * ```
 */
export async function saveCheckpoint<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(
  folder: string | URL,
  tensors: NamedTensors<D, ByName>,
  options: Omit<SaveCheckpointOptions, 'dryRun'> & MaybeDryRun,
): Promise<SavedCheckpoint | SaveCheckpointPlan>;
export async function saveCheckpoint<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(
  folder: string | URL,
  tensors: NamedTensors<D, ByName>,
  options: Omit<SaveCheckpointOptions, 'dryRun'> & MaybeDryRun = {},
): Promise<SavedCheckpoint | SaveCheckpointPlan> {
  requireLittleEndianHost();
  requirePathFirst(folder, tensors, 'saveCheckpoint(folder, tensors)');
  requireOptions(options, SAVE_CHECKPOINT_OPTIONS);
  const given = [...pairsOf(tensors as NamedTensors, 'tensors')];
  if (given.length === 0) throw argumentRangeError('tensors', 'at least one tensor', given);
  const metadata = metadataOf(options);
  const entries = readTensorsAndStreams(given);
  const memories = entries.map((entry, i) => memoryOfEntry(entry, given[i]?.[1]));
  const { shared = 'copy' } = options;
  const { dropped, overlaps } = recordable(
    runSync(planSharing(memories, shared)),
    shared,
    metadata,
  );
  const kept = entries.filter(({ name }) => !dropped.has(name));
  // Synchronous, in the turn of the call: the tensors' memory was inspected there.
  const layout = layOutCheckpoint(runSync(tableOf(kept)), options, (split) =>
    checkpointMetadata(split, metadata, dropped),
  );
  const checkpoint = runSync(layout);
  const { unrecorded } = checkpoint.metadata;
  return await inLockedFolder(folder, options, async (locked) => {
    const shared = { dropped, unrecorded, overlaps };
    if (options.dryRun === true) return { ...planCheckpoint(locked, checkpoint), ...shared };
    return { ...(await writeCheckpoint(locked, checkpoint, options)), ...shared };
  });
}

/** Checked here, because an index accepts more types than a header. */
function metadataOf({
  metadata,
}: Pick<SaveCheckpointOptions, 'metadata'>): ReadonlyMap<string, string> {
  if (metadata === null || metadata === undefined) return new Map();
  const pairs = [...pairsOf(metadata, 'metadata')];
  encodeMetadata(pairs);
  return new Map(pairs);
}

/** Keys with a meaning of their own, in a file or in an index. */
const OWN_KEYS: ReadonlySet<string> = new Set(['format', 'total_size']);

/** With `dedupe`, drops a name only if the metadata can record the tensor that replaces it. */
function recordable(
  plan: SharingPlan,
  mode: SharedMode,
  metadata: ReadonlyMap<string, string>,
): SharingPlan {
  if (mode !== 'dedupe') return plan;
  const dropped = new Map(plan.dropped);
  const overlaps = [...plan.overlaps];
  for (const [name, kept] of plan.dropped) {
    if (!OWN_KEYS.has(name) && !metadata.has(name)) continue;
    dropped.delete(name);
    overlaps.push([name, kept]);
  }
  return { dropped, overlaps };
}
