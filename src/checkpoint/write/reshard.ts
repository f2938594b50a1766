/** `reshard`: a checkpoint in other files. */

import { dirname } from 'node:path';
import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { requireLittleEndianHost } from '../../format/dtype.js';
import { runAsync } from '../../io/steps.js';
import { type CastReport, reportOf } from '../../selection/cast-report.js';
import {
  readSelection,
  SELECTION_OPTIONS,
  type SelectionOptions,
  selectsAll,
} from '../../selection/options.js';
import { reshardMetadata } from '../../shards/metadata.js';
import { openShards } from '../open.js';
import {
  WRITE_OPTIONS,
  type WriteCheckpointOptions,
  type WriteOrPlanOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from './execute-plan.js';
import { type CheckpointLayoutOptions, LAYOUT_OPTIONS, layOutCheckpoint } from './layout.js';
import { inLockedFolder } from './locked-folder.js';
import {
  type CopiedFiles,
  findOtherFiles,
  NO_OTHER_FILES,
  type OtherFilesOptions,
} from './other-files.js';
import { type CheckpointPlan, type DryRun, planCheckpoint } from './plan.js';
import { type SelectedTensors, selectTensors } from './reshard-selection.js';
import { SourceTensors } from './reshard-source.js';

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

/** Tensors as they are. */
function allOf(table: SourceTensors): SelectedTensors {
  return { table, metadataOf: (metadata) => metadata, report: reportOf([], new Map()) };
}

/** Result of {@link reshard}. */
export interface ReshardedCheckpoint extends WrittenCheckpoint, CastReport, CopiedFiles {
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
export async function reshard(
  source: string | URL,
  target: string | URL,
  options: Omit<ReshardOptions, 'dryRun'> & WriteOrPlanOptions = {},
): Promise<ReshardedCheckpoint | ReshardPlan> {
  requireLittleEndianHost();
  requireOptions(options, RESHARD_OPTIONS);
  const { copyOtherFiles = false } = options;
  requireBoolean('copyOtherFiles', copyOtherFiles);
  const selection = readSelection(options);
  // Locked before the source is read: both may be one folder, into which another process saves.
  return await inLockedFolder(target, options, async (folder) => {
    // No need to map files that are only copied.
    const shards = await runAsync(openShards(source, { storage: 'read' }), options.signal);
    try {
      const from = dirname(shards.files.path);
      const others = copyOtherFiles ? findOtherFiles(from, folder) : NO_OTHER_FILES;
      const tensors = new SourceTensors(shards);
      const given = Array.from(shards, (file) => file.metadata);
      const { table, metadataOf, report } = selectsAll(selection)
        ? allOf(tensors)
        : selectTensors(tensors, shards.files, given, selection);
      const files = given.map(metadataOf);
      const { index } = shards.files;
      const ofIndex = index && { metadata: metadataOf(index.metadata), jsonKeys: index.jsonKeys };
      let conflicts: readonly string[] = [];
      const checkpoint = layOutCheckpoint(table, options, (split) => {
        const merged = reshardMetadata(files, ofIndex, split);
        conflicts = merged.conflicts;
        return merged;
      });
      const copied = others.files.map(({ name }) => name);
      const { overflowed, ...casts } = report;
      const facts = { ...casts, conflicts, copied, skipped: others.skipped };
      if (options.dryRun === true) {
        return { ...planCheckpoint(folder, checkpoint, others.files), ...facts };
      }
      const written = await writeCheckpoint(folder, checkpoint, options, {
        otherFiles: others.files,
        closeSources: () => shards.close({}),
      });
      return { ...written, ...facts, overflowed };
    } finally {
      shards.close({});
    }
  });
}
