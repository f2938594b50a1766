/** `saveCheckpoint`. Its code loads on the first call. */

import { argumentRangeError, requirePathFirst } from '../../errors/arguments.js';
import type { Dtype } from '../../header/dtype.js';
import type { QuantizedSource } from '../../quantized/source.js';
import type { CastTarget } from '../../tensor/float32/cast.js';
import { rejectBlocks } from '../input/block-tensors.js';
import { type FetchableTensors, isFetchable } from '../input/fetched-tensors.js';
import { isHandle, metadataFor } from '../input/given-checkpoint.js';
import { GivenTensors } from '../input/given-tensors.js';
import type { NamedTensors } from '../input/tensor-input.js';
import { EarlyLease } from '../save/leased-files.js';
import { select } from '../selection/view.js';
import type { DryRun, DryRunResult } from './plan.js';
import type { SaveCheckpointOptions, SaveCheckpointPlan, SavedCheckpoint } from './save.js';

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
 * With `dryRun: true` it returns the plan and writes nothing.
 *
 * @throws As `saveFile`, and `SAFETENSORS_LOCKED`, and `SAFETENSORS_SHARED_TENSORS` with `error` and `python`;
 *   RangeError also for an empty state dict; FormatError `SAFETENSORS_INDEX_TOO_LARGE`
 *
 * @example
 * ```ts
 * const tensors = loadFile('model.safetensors');
 * const { files, index } = await saveCheckpoint('saved', tensors, { maxShardSize: '64B' });
 * console.log(files.length, index); // → 2 model.safetensors.index.json
 *
 * const plan = await saveCheckpoint('planned', tensors, { maxShardSize: '64B', dryRun: true });
 * console.log(plan.files[0]?.tensors, plan.totalSize); // → [ 'norm.weight' ] 80
 * ```
 */
export async function saveCheckpoint<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
  const Dry extends boolean | undefined = false,
>(
  folder: string | URL,
  tensors: NamedTensors<D, ByName> | FetchableTensors,
  options?: SaveCheckpointOptions & DryRun<Dry>,
): Promise<DryRunResult<Dry, SaveCheckpointPlan, SavedCheckpoint>> {
  requirePathFirst(folder, tensors, 'saveCheckpoint(folder, tensors)');
  rejectBlocks(tensors);
  const dtype = options?.dtype;
  const source = dtype === undefined ? tensors : await castTo(dtype, tensors, options?.signal);
  // Tensors and metadata are read at once: the caller may change them, or close the checkpoint, after the call.
  const metadata = isFetchable(source) ? undefined : metadataFor(source, undefined);
  const given = isFetchable(source) ? source : new GivenTensors(source as NamedTensors);
  const lease = new EarlyLease(given instanceof GivenTensors ? given.stored : []);
  try {
    const { saveCheckpoint: save } = await import('./save.js');
    const result = await save(folder, given, options, metadata, { lease: () => lease.files() });
    return result as DryRunResult<Dry, SaveCheckpointPlan, SavedCheckpoint>;
  } finally {
    lease.end();
  }
}

/** Returns a view of the checkpoint with this dtype. Throws a RangeError for tensors that are not of a checkpoint. */
async function castTo<Tensors>(
  dtype: CastTarget,
  tensors: Tensors,
  signal: AbortSignal | undefined,
): Promise<Tensors> {
  if (!isHandle(tensors)) {
    throw argumentRangeError('dtype', 'left out, except for the tensors of a checkpoint', dtype);
  }
  // A view needs the headers.
  if (isFetchable(tensors)) await tensors.tensors({ signal });
  return select(tensors as unknown as Tensors & QuantizedSource, { dtype });
}
