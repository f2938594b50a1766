/** `saveCheckpoint`: writes a state dict as one file, or as shards with an index. */

import { argumentRangeError, type OptionNames, requireOptions } from '../../errors/arguments.js';
import { pairsOf } from '../../errors/named-values.js';
import { checkpointMetadata, noMetadata } from '../../file/shards/metadata.js';
import { planSharing, recordable, type SharedMode } from '../../file/shards/shared-tensors.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { encodeMetadata, type MetadataInput } from '../../header/header-writer.js';
import { runSync } from '../../work/work.js';
import { type FetchableTensors, fetchedTensors, isFetchable } from '../input/fetched-tensors.js';
import { metadataFor } from '../input/given-checkpoint.js';
import { type NamedTensors, readTensorsAndStreams } from '../input/tensor-input.js';
import { requireOverwrite } from '../replacement/replaced-files.js';
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
import { findOtherFiles, NO_OTHER_FILES } from './other-files.js';
import { type CheckpointPlan, type DryRun, planCheckpoint, type SharedTensors } from './plan.js';
import { memoryOfEntry } from './tensor-memory.js';

/** Options of `saveCheckpoint`. */
export interface SaveCheckpointOptions extends CheckpointLayoutOptions, WriteCheckpointOptions {
  /**
   * Strings by key. In a single file they follow `format: pt`, which they may overwrite; with several files they go
   * into the index, after `total_size`. The default is the metadata of a checkpoint that is written, as in `saveFile`.
   * Null writes none, not even `format`, and records no shared tensors.
   */
  readonly metadata?: MetadataInput | null | undefined;
  /**
   * How to write tensors that share memory. The default `copy` writes all, so every reader finds every name. `dedupe`
   * writes equal tensors once and records the other names in the metadata, where `safeOpen` and other readers
   * that support this find them.
   */
  readonly shared?: SharedMode | undefined;
}

const SAVE_CHECKPOINT_OPTIONS: OptionNames<SaveCheckpointOptions & DryRun> = {
  ...LAYOUT_OPTIONS,
  ...WRITE_OPTIONS,
  metadata: true,
  shared: true,
};

/** Result of `saveCheckpoint`. */
export interface SavedCheckpoint extends WrittenCheckpoint, SharedTensors {}

/** Result of `saveCheckpoint` with `dryRun: true`. */
export interface SaveCheckpointPlan extends CheckpointPlan, SharedTensors {}

/** What a command decides about the folder. */
export interface SaveTarget {
  /** A folder whose files next to the weights are copied: configuration, tokenizer and the like. */
  readonly otherFilesOf?: string | undefined;
  /** Whether weights of another checkpoint may be replaced; by default they are. */
  readonly overwrite?: boolean | undefined;
}

/** As the public `saveCheckpoint`. `own` is the metadata of a local checkpoint whose tensors these are. */
export async function saveCheckpoint(
  folder: string | URL,
  tensors: NamedTensors | FetchableTensors,
  options: SaveCheckpointOptions & DryRun = {},
  own?: MetadataInput | null,
  target: SaveTarget = {},
): Promise<SavedCheckpoint | SaveCheckpointPlan> {
  requireLittleEndianHost();
  requireOptions(options, SAVE_CHECKPOINT_OPTIONS);
  const named = isFetchable(tensors) ? await fetchedTensors(tensors, options.signal) : tensors;
  const given = [...pairsOf(named as NamedTensors, 'tensors')];
  if (given.length === 0) throw argumentRangeError('tensors', 'at least one tensor', given);
  const ownTexts = (): MetadataInput => {
    const found = own ?? metadataFor(tensors, undefined) ?? [];
    // Every file has `format: pt` in any case; it is not repeated in an index.
    return [...pairsOf(found, 'metadata')].filter(
      ([key, text]) => key !== 'format' || text !== 'pt',
    );
  };
  const metadata = options.metadata === null ? null : textsOf(options.metadata ?? ownTexts());
  const entries = readTensorsAndStreams(given);
  const memories = entries.map((entry, i) => memoryOfEntry(entry, given[i]?.[1]));
  const { shared = 'copy' } = options;
  const { dropped, overlaps } = recordable(
    runSync(planSharing(memories, shared)),
    shared,
    new Set(metadata?.keys()),
  );
  const kept = entries.filter(({ name }) => !dropped.has(name));
  // Synchronous, in the turn of the call: the tensors' memory was inspected there.
  const layout = layOutCheckpoint(runSync(tableOf(kept)), options, (split) =>
    metadata === null ? noMetadata(split, dropped) : checkpointMetadata(split, metadata, dropped),
  );
  const checkpoint = runSync(layout);
  const { unrecorded } = checkpoint.metadata;
  return await inLockedFolder(folder, options, async (locked) => {
    const shared = { dropped, unrecorded, overlaps };
    const { otherFilesOf, overwrite } = target;
    const others =
      otherFilesOf === undefined ? NO_OTHER_FILES : findOtherFiles(otherFilesOf, locked);
    const plan = planCheckpoint(locked, checkpoint, others);
    if (options.dryRun === true) return { ...plan, ...shared };
    if (overwrite !== undefined) requireOverwrite(plan.replaced, locked, { overwrite });
    const otherFiles = others.files;
    const written = await writeCheckpoint(locked, checkpoint, options, { otherFiles });
    return { ...written, ...shared };
  });
}

/** Metadata of all files together. Checked here, because an index accepts more types than a header. */
function textsOf(given: MetadataInput | null | undefined): Map<string, string> {
  const pairs = [...pairsOf(given ?? [], 'metadata')];
  encodeMetadata(pairs);
  return new Map(pairs);
}
