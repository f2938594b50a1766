/** `reshard`: a checkpoint in other files. */

import { requireLittleEndianHost } from './byte-order.js';
import { Checkpoint } from './checkpoint.js';
import { type CheckpointLayoutOptions, planCheckpoint } from './checkpoint-plan.js';
import { requireOptions } from './errors.js';
import { SafetensorsFile } from './file.js';
import { openCheckpoint } from './open-checkpoint.js';
import { reshardMetadata } from './resharded-metadata.js';
import type { LendingStorage } from './storage.js';
import { Tensor } from './tensor.js';
import type { FilePayload, TensorEntry } from './tensor-input.js';
import {
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from './write-checkpoint.js';

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
 * within the kernel, neighbours together; memory is needed for the headers only.
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
  const checkpoint = openCheckpoint(source, { storage: 'read' });
  try {
    const entries = entriesOf(checkpoint);
    const shards = Checkpoint.shardsOf(checkpoint);
    const files = Array.from(shards, (file) => file.metadata);
    let conflicts: readonly string[] = [];
    const plan = planCheckpoint(entries, options, (split) => {
      const merged = reshardMetadata(files, shards.files.index, split);
      conflicts = merged.conflicts;
      return merged;
    });
    return { ...(await writeCheckpoint(target, plan, options)), conflicts };
  } finally {
    checkpoint.close();
  }
}

/**
 * Every tensor that a shard holds; of several with one name, the one of the index. From the headers:
 * a hundred thousand tensors need not be made for it.
 */
function entriesOf(checkpoint: Checkpoint): TensorEntry<FilePayload>[] {
  const shards = Checkpoint.shardsOf(checkpoint);
  const { index } = shards.files;
  const entries = new Map<string, TensorEntry<FilePayload>>();
  let shard = 0;
  for (const file of shards) {
    for (const entry of entriesOfFile(file)) {
      const { name } = entry;
      const indexed = index?.find(name) ?? -1;
      const isMeant = indexed !== -1 && index?.shardOf(indexed) === shard;
      if (isMeant || !entries.has(name)) entries.set(name, entry);
    }
    shard++;
  }
  // Throws for what only the index has.
  for (let entry = 0; entry < (index?.size ?? 0); entry++) {
    const name = index?.name(entry) as string;
    if (!entries.has(name)) checkpoint.info(name);
  }
  return [...entries.values()];
}

/** The tensors in the order of the file. */
function* entriesOfFile(file: SafetensorsFile): Generator<TensorEntry<FilePayload>, void, void> {
  const header = SafetensorsFile.headerOf(file);
  let storage: LendingStorage | undefined;
  for (let entry = 0; entry < header.size; entry++) {
    storage ??= Tensor.sourceOf(file.getTensor(header.name(entry))).untouchedFile as LendingStorage;
    const begin = header.begin(entry);
    yield {
      name: header.name(entry),
      dtype: header.dtype(entry),
      shape: header.shape(entry),
      byteLength: header.end(entry) - begin,
      payload: { kind: 'file', storage, position: header.dataStart + begin },
    };
  }
}
