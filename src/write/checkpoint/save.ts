/** `saveCheckpoint`: writes a state dict as one file, or as shards with an index. */

import { argumentRangeError, type OptionNames, requireOptions } from '../../errors/arguments.js';
import { pairsOf } from '../../errors/named-values.js';
import { checkpointMetadata, noMetadata } from '../../file/shards/metadata.js';
import {
  planSharing,
  recordable,
  type SharedMode,
  type TensorMemory,
} from '../../file/shards/shared-tensors.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { encodeMetadata, type MetadataInput } from '../../header/header-writer.js';
import type { CastTarget } from '../../tensor/float32/cast.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { filterYielding } from '../../work/items.js';
import { runAsync, runSync, type Work } from '../../work/work.js';
import { type FetchableTensors, fetchedTensors, isFetchable } from '../input/fetched-tensors.js';
import { metadataFor } from '../input/given-checkpoint.js';
import { GivenTensors } from '../input/given-tensors.js';
import type { MemoryPayload, NamedTensors } from '../input/tensor-input.js';
import { overwritePlan, requireOverwrite } from '../replacement/replaced-files.js';
import type { LeasedFiles } from '../save/leased-files.js';
import {
  WRITE_OPTIONS,
  type WriteCheckpointOptions,
  type WrittenCheckpoint,
  writeCheckpoint,
} from './execute-plan.js';
import {
  type AnyEntry,
  type CheckpointLayout,
  type CheckpointLayoutOptions,
  LAYOUT_OPTIONS,
  layOutCheckpoint,
  tableOf,
} from './layout.js';
import { inLockedFolder } from './locked-folder.js';
import {
  type CheckpointPlan,
  type DryRun,
  oldFilesBefore,
  planCheckpoint,
  type SharedTensors,
} from './plan.js';
import { NO_OTHER_FILES, type SidecarFiles } from './sidecar-files.js';

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
  /**
   * Casts the floating-point tensors of a checkpoint to this dtype, as `select` does: values that are too large become
   * infinite. `convert` counts these.
   */
  readonly dtype?: CastTarget | undefined;
}

const SAVE_CHECKPOINT_OPTIONS: OptionNames<SaveCheckpointOptions & DryRun> = {
  ...LAYOUT_OPTIONS,
  ...WRITE_OPTIONS,
  metadata: true,
  shared: true,
  dtype: true,
};

/** Result of `saveCheckpoint`. */
export interface SavedCheckpoint extends WrittenCheckpoint, SharedTensors {}

/** Result of `saveCheckpoint` with `dryRun: true`. */
export interface SaveCheckpointPlan extends CheckpointPlan, SharedTensors {}

/** What a command decides about the folder. */
export interface SaveTarget {
  /** Finds the files to copy next to the weights: configuration, tokenizer and the like. */
  readonly otherFiles?: ((folder: string) => SidecarFiles) | undefined;
  /** Whether weights of another checkpoint may be replaced; by default they are. */
  readonly overwrite?: boolean | undefined;
  /** Returns the files of the tensors, if they were leased in the turn of the call. */
  readonly lease?: (() => LeasedFiles) | undefined;
}

/** As the public `saveCheckpoint`. `own` is the metadata of a local checkpoint whose tensors these are. */
export async function saveCheckpoint(
  folder: string | URL,
  tensors: GivenTensors | NamedTensors | FetchableTensors,
  options: SaveCheckpointOptions & DryRun = {},
  own?: MetadataInput | null,
  target: SaveTarget = {},
): Promise<SavedCheckpoint | SaveCheckpointPlan> {
  requireLittleEndianHost();
  requireOptions(options, SAVE_CHECKPOINT_OPTIONS);
  const given = tensors instanceof GivenTensors ? tensors : await read(tensors, options.signal);
  if (given.size === 0) {
    runSync(given.entries());
    throw argumentRangeError('tensors', 'at least one tensor', []);
  }
  const ownTexts = (): MetadataInput => {
    const found = own ?? metadataFor(tensors, undefined) ?? [];
    // Every file has `format: pt` in any case; it is not repeated in an index.
    return [...pairsOf(found, 'metadata')].filter(
      ([key, text]) => key !== 'format' || text !== 'pt',
    );
  };
  const metadata = options.metadata === null ? null : textsOf(options.metadata ?? ownTexts());
  const work = layOutGiven(given, metadata, options);
  // Without the signal: faults of the arguments come before an abort.
  const { checkpoint, ...shared } = await runAsync(work, undefined);
  return await inLockedFolder(folder, options, async (locked) => {
    const { otherFiles: find, overwrite, lease } = target;
    const others = find?.(locked) ?? NO_OTHER_FILES;
    if (options.dryRun === true) {
      const plan = planCheckpoint(locked, checkpoint, others);
      const needs = overwrite === undefined ? {} : overwritePlan(plan.replaced, { overwrite });
      return { ...plan, ...shared, ...needs };
    }
    const { replaced } = oldFilesBefore(locked, checkpoint, others);
    if (overwrite !== undefined) requireOverwrite(replaced, locked, { overwrite });
    const otherFiles = others.files;
    const written = await writeCheckpoint(locked, checkpoint, options, { otherFiles, lease });
    return { ...written, ...shared };
  });
}

/** Reads the tensors of a checkpoint in this turn; of a remote one when its headers are fetched. */
async function read(
  tensors: NamedTensors | FetchableTensors,
  signal: AbortSignal | undefined,
): Promise<GivenTensors> {
  const named = isFetchable(tensors) ? await fetchedTensors(tensors, signal) : tensors;
  return new GivenTensors(named as NamedTensors);
}

/** Checks and lays out the tensors. */
function* layOutGiven(
  given: GivenTensors,
  metadata: ReadonlyMap<string, string> | null,
  options: SaveCheckpointOptions,
): Work<SharedTensors & { readonly checkpoint: CheckpointLayout }> {
  const entries = yield* given.entries();
  const { shared = 'copy' } = options;
  // In one turn, since the memory of a tensor of a file is another one after its first use. Copies share none.
  const memories =
    shared === 'copy' ? [] : entries.map((entry, i) => memoryOfEntry(entry, given.storedTensor(i)));
  const plan = yield* planSharing(memories, shared);
  const { dropped, overlaps } = recordable(plan, shared, new Set(metadata?.keys()));
  const written = yield* filterYielding(entries, ({ name }) => !dropped.has(name));
  const table = yield* tableOf(written);
  const checkpoint = yield* layOutCheckpoint(table, options, (split) =>
    metadata === null ? noMetadata(split, dropped) : checkpointMetadata(split, metadata, dropped),
  );
  return { checkpoint, dropped, unrecorded: checkpoint.metadata.unrecorded, overlaps };
}

/** Metadata of all files together. Checked here, because an index accepts more types than a header. */
function textsOf(given: MetadataInput | null | undefined): Map<string, string> {
  const pairs = [...pairsOf(given ?? [], 'metadata')];
  encodeMetadata(pairs);
  return new Map(pairs);
}

/** The identity of a tensor's memory, its length, and the tensor's offset in it. */
type MemoryPlace = Pick<TensorMemory, 'storage' | 'storageByteLength' | 'byteOffset'>;

/**
 * Returns the memory of a tensor; `given` is the caller's value, `entry` the result of checking it. For tensors of a
 * file and their slices it is the memory of the whole tensor, without reading it or making a buffer. A stream never
 * shares memory.
 */
export function memoryOfEntry(entry: AnyEntry, given: unknown): TensorMemory {
  const { name, dtype, shape } = entry;
  return { name, dtype, shape, ...placeOfEntry(entry, given) };
}

function placeOfEntry({ payload, byteLength }: AnyEntry, given: unknown): MemoryPlace {
  if (given instanceof TensorOf) return placeOfTensor(given);
  if (payload.kind === 'stream') {
    return { storage: payload, storageByteLength: byteLength, byteOffset: 0 };
  }
  const { buffer, byteOffset } = (payload as MemoryPayload).window(0, byteLength);
  return { storage: buffer, storageByteLength: buffer.byteLength, byteOffset };
}

function placeOfTensor(tensor: Tensor): MemoryPlace {
  const source = TensorOf.sourceOf(tensor);
  const { owner } = source;
  const offset = source.position - owner.position + TensorOf.offsetOf(tensor);
  if (owner.isResolved) {
    const { buffer, byteOffset } = owner.resolve();
    // The caller may have made other tensors from this buffer. A longer buffer, such as the bytes of a whole file, is
    // not the tensor's own memory.
    if (buffer.byteLength === owner.byteLength) {
      return {
        storage: buffer,
        storageByteLength: buffer.byteLength,
        byteOffset: byteOffset + offset,
      };
    }
  }
  return { storage: owner, storageByteLength: owner.byteLength, byteOffset: offset };
}
