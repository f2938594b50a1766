/** `saveCheckpoint`: a state dict as one file, or as shards with an index. */

import { argumentRangeError, requireOptions } from '../../errors/arguments.js';
import { requireLittleEndianHost } from '../../format/dtype.js';
import { encodeMetadata, type MetadataInput } from '../../format/header-writer.js';
import { type NamedValues, pairsOf } from '../../format/named-values.js';
import type { TensorBytes } from '../../save/tensor-bytes.js';
import { readTensorsAndStreams, type TensorInput } from '../../save/tensor-input.js';
import type { TensorStream } from '../../save/tensor-stream.js';
import { checkpointMetadata } from '../../shards/metadata.js';
import { planSharing, type SharedMode, type SharingPlan } from '../../shards/shared-tensors.js';
import {
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from './execute-plan.js';
import { type CheckpointLayoutOptions, planCheckpoint, tableOf } from './plan.js';
import { memoryOf } from './tensor-memory.js';

/** Options of {@link saveCheckpoint}. */
export interface SaveCheckpointOptions extends CheckpointLayoutOptions, WriteCheckpointOptions {
  /**
   * Strings by key. A single file has them beside `format: pt`, which they may overwrite; of several
   * files the index has them, behind `total_size`.
   */
  readonly metadata?: MetadataInput | null | undefined;
  /**
   * What to do with tensors over the same memory; `copy` by default, by which every reader finds every
   * name. `dedupe` writes equal ones once and records the other names in the metadata, where
   * `openCheckpoint` finds them, and other readers only if they know of it.
   */
  readonly shared?: SharedMode | undefined;
}

/** Result of {@link saveCheckpoint}. */
export interface SavedCheckpoint extends WrittenCheckpoint {
  /** The name that stands for it, by name that was not written. */
  readonly dropped: ReadonlyMap<string, string>;
  /** Of those, names of which the metadata says nothing, since their key has another meaning. */
  readonly unrecorded: readonly string[];
  /** In the mode `dedupe`: groups of names over common bytes that were written more than once. */
  readonly overlaps: readonly (readonly string[])[];
}

/**
 * Writes a state dict into a folder, off the event loop: as `model.safetensors`, or in shards with an
 * index when it is larger than `maxShardSize`. Files and index are those of `huggingface_hub`. A
 * folder that is missing is made, with those above it.
 *
 * Everything is written to temporary files first. Then the new files take their places so that the
 * folder has at every moment a whole checkpoint, the old one or the new one, also when they have the
 * same names; what fails before they have leaves the old one. A killed process leaves one of the two,
 * and temporary files, which the next save clears away. Last, files of an earlier checkpoint are
 * deleted: those that the pattern can have named, and no others. For all this the disk needs room for
 * both. Links in the folder are replaced, not followed; files that are open or mapped stay what they
 * were, also when the tensors come from them.
 *
 * Two files at a time, and two pieces of them, are under way. Tensors and streams are as in
 * `saveFile`; streams are asked in the order of the files. Two saves of one pattern into one folder
 * at the same time leave a whole checkpoint of one of them when they are of one thread; the other one
 * may fail. From different threads or processes they must not be made.
 *
 * @throws As `saveFile`, and `SAFETENSORS_SHARED_TENSORS` in the modes `error` and `python`;
 *   RangeError also for no tensors at all; FormatError `SAFETENSORS_INDEX_TOO_LARGE`
 */
export async function saveCheckpoint(
  folder: string | URL,
  tensors: NamedValues<TensorInput<TensorBytes | TensorStream>>,
  options: SaveCheckpointOptions = {},
): Promise<SavedCheckpoint> {
  requireLittleEndianHost();
  requireOptions(options);
  const given = [...pairsOf(tensors, 'tensors')];
  if (given.length === 0) throw argumentRangeError('tensors', 'at least one tensor', given);
  const metadata = metadataOf(options);
  const entries = readTensorsAndStreams(given);
  const memories = entries.map((entry, i) => memoryOf(entry, given[i]?.[1]));
  const { shared = 'copy' } = options;
  const { dropped, overlaps } = recordable(planSharing(memories, shared), shared, metadata);
  const kept = entries.filter(({ name }) => !dropped.has(name));
  let unrecorded: readonly string[] = [];
  const plan = planCheckpoint(tableOf(kept), options, (split) => {
    const planned = checkpointMetadata(split, metadata, dropped);
    unrecorded = planned.unrecorded;
    return planned;
  });
  const written = await writeCheckpoint(folder, plan, options);
  return { ...written, dropped, unrecorded, overlaps };
}

/** Checked here, since the index takes more than headers do. */
function metadataOf({ metadata }: SaveCheckpointOptions): ReadonlyMap<string, string> {
  if (metadata === null || metadata === undefined) return new Map();
  const pairs = [...pairsOf(metadata, 'metadata')];
  encodeMetadata(pairs);
  return new Map(pairs);
}

/** Keys that have a meaning of their own, in a file or in an index. */
const OWN_KEYS: ReadonlySet<string> = new Set(['format', 'total_size']);

/** In the mode `dedupe` a name is dropped only where the metadata can say what stands for it. */
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
