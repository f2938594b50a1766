/** `reshard`: a checkpoint in other files. */

import { requireOptions } from '../../errors/arguments.js';
import { requireLittleEndianHost } from '../../format/dtype.js';
import { reshardMetadata } from '../../shards/metadata.js';
import { LazyShards } from '../lazy-shards.js';
import { findCheckpoint } from '../open.js';
import {
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from './execute-plan.js';
import { type CheckpointLayoutOptions, planCheckpoint } from './plan.js';
import { SourceTensors } from './reshard-source.js';

/** Options of {@link reshard}; those of the layout are the target's. */
export interface ReshardOptions extends CheckpointLayoutOptions, WriteCheckpointOptions {}

/** Result of {@link reshard}. */
export interface ReshardedCheckpoint extends WrittenCheckpoint {
  /** Keys of metadata that files of the source give different values, of which not all were kept. */
  readonly conflicts: readonly string[];
}

/**
 * Writes a checkpoint into a folder in files of another size: splits, merges (`maxShardSize:
 * Infinity` gives one file) or both. `source` is whatever `openCheckpoint` opens; the target may be
 * the folder of the source, where the new files take the place of the old ones as in `saveCheckpoint`.
 *
 * Tensors keep name, dtype, shape and bytes, and are taken shard by shard in the order of each file.
 * Those that shards hold and the index does not name are not lost. Their bytes go from file to file
 * within the kernel, neighbours together, and short ones from many places through buffers of 4 MiB.
 * Beside them memory is needed for the headers and the index only, old and new: some 1.1 kB for a
 * tensor with a name of 50 characters.
 *
 * Metadata: keys of the index stay in the index, with their values of any type, but for a new
 * `total_size`; in a single file they are strings, others than strings as their JSON text, without
 * `total_size`. What a single file has goes into the index, and its `format` into every shard. What
 * all shards have that have it at all goes into every file; where they disagree none is kept, and
 * where index and shards disagree about a single file the shards'. Aliases stay aliases.
 *
 * @throws As `openCheckpoint` and `saveCheckpoint`; FormatError `SAFETENSORS_INDEX_MISMATCH` when the
 *   index names a tensor that is not there
 */
export async function reshard(
  source: string | URL,
  target: string | URL,
  options: ReshardOptions = {},
): Promise<ReshardedCheckpoint> {
  requireLittleEndianHost();
  requireOptions(options);
  // Nothing is mapped that is only copied.
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
    return { ...(await writeCheckpoint(target, plan, options)), conflicts };
  } finally {
    shards.close({});
  }
}
