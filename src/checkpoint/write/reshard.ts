/** `reshard`: a checkpoint in other files. */

import { type OptionNames, requireOptions } from '../../errors/arguments.js';
import { requireLittleEndianHost } from '../../format/dtype.js';
import { reshardMetadata } from '../../shards/metadata.js';
import { LazyShards } from '../lazy-shards.js';
import { findCheckpoint } from '../open.js';
import {
  WRITE_OPTIONS,
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from './execute-plan.js';
import { inLockedFolder } from './locked-folder.js';
import { type CheckpointLayoutOptions, LAYOUT_OPTIONS, planCheckpoint } from './plan.js';
import { SourceTensors } from './reshard-source.js';

/** Options of {@link reshard}; those of the layout are the target's. */
export interface ReshardOptions extends CheckpointLayoutOptions, WriteCheckpointOptions {}

const RESHARD_OPTIONS: OptionNames<ReshardOptions> = { ...LAYOUT_OPTIONS, ...WRITE_OPTIONS };

/** Result of {@link reshard}. */
export interface ReshardedCheckpoint extends WrittenCheckpoint {
  /** Keys of metadata for which files of the source have different values that were not all kept. */
  readonly conflicts: readonly string[];
}

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
 * @throws As `openCheckpoint` and `saveCheckpoint`; FormatError `SAFETENSORS_INDEX_MISMATCH` when the
 *   index names a tensor that is not there
 *
 * @example
 * ```ts
 * const { files } = await reshard('my-model', 'merged', { maxShardSize: Infinity });
 * console.log(files); // → [ 'model.safetensors' ]
 * ```
 */
export async function reshard(
  source: string | URL,
  target: string | URL,
  options: ReshardOptions = {},
): Promise<ReshardedCheckpoint> {
  requireLittleEndianHost();
  requireOptions(options, RESHARD_OPTIONS);
  // Locked before the source is read: both may be one folder, into which another process saves.
  return await inLockedFolder(target, options, async (folder) => {
    // No need to map files that are only copied.
    const shards = new LazyShards(findCheckpoint(source, {}), { storage: 'read' });
    try {
      const tensors = new SourceTensors(shards);
      const files = Array.from(shards, (file) => file.metadata);
      let conflicts: readonly string[] = [];
      const plan = planCheckpoint(tensors, options, (split) => {
        const merged = reshardMetadata(files, shards.files.index, split);
        conflicts = merged.conflicts;
        return merged;
      });
      return { ...(await writeCheckpoint(folder, plan, options)), conflicts };
    } finally {
      shards.close({});
    }
  });
}
