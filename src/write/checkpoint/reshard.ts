/** `reshard`: writes a checkpoint anew, in files of another size. */

import { type OptionNames, requireOptions } from '../../errors/arguments.js';
import type { TensorInfo } from '../../file/source/facts.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import type { OverwriteOptions } from '../replacement/replaced-files.js';
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
    OtherFilesOptions,
    OverwriteOptions {}

const RESHARD_OPTIONS: OptionNames<ReshardOptions> = {
  ...LAYOUT_OPTIONS,
  ...WRITE_OPTIONS,
  ...SELECTION_OPTIONS,
  copyOtherFiles: true,
  overwrite: true,
};

/** Result of {@link reshard}. */
export interface ReshardedCheckpoint extends WrittenCheckpoint, SelectionReport, CopiedFiles {
  /** Keys of metadata with differing values in the source's files, not all of which were kept. */
  readonly conflicts: readonly string[];
}

/** Result with `dryRun: true`: without the counts that only a cast can give. */
export interface ReshardPlan
  extends CheckpointPlan,
    Omit<ReshardedCheckpoint, keyof WrittenCheckpoint | 'overflowed'> {}

/**
 * Writes a checkpoint into a folder in files of another size: splits, merges (`maxShardSize: Infinity` gives one
 * file) or both. `source` is anything that `openCheckpoint` opens. The target may be the folder of the source: as
 * with `saveCheckpoint`, the folder is locked and the new files replace the old ones.
 *
 * Tensors keep name, dtype, shape and bytes, shard by shard in the order of each file. A tensor of a shard that the
 * index does not name is kept, too. The kernel copies the bytes from file to file, neighbours together; short tensors
 * from many places go through buffers of 4 MiB. Besides these, memory is needed only for the old and new headers and
 * the index: about 1.1 kB for a tensor with a name of 50 characters.
 *
 * Metadata: the keys of an index stay in the new index, with values of any type, and `total_size` is computed anew.
 * Merged into a single file, values become strings (other types as their JSON text), without `total_size`. When a
 * single file is split, its metadata goes into the index, and its `format` also into every shard. A key of the shards
 * goes into every new file if all shards with that key agree on its value, else it is dropped. In a single file,
 * shards win over the index. Aliases stay aliases.
 *
 * `names`, `rename`, `dtype` and `select` take only some tensors, or give them other names or another dtype. Casts
 * run on the thread pool, a megabyte at a time, and round as torch does. They need memory for every tensor's name and
 * facts. Files beside the weights are copied unchanged, but `config.json` lists the new dtype when all floating-point
 * tensors have it; otherwise `configMismatches` names the disagreement. An alias goes with its tensor.
 *
 * `dequantize` writes plain weights in place of quantized tensors, and `config.json` without quantization, also without
 * `copyOtherFiles`. What says how weights were quantized, such as `quantize_config.json`, is deleted in the target.
 *
 * `copyOtherFiles` makes the target a model that other programs load. It copies all files from the folder of the
 * index or single file, except weights of any format (`.safetensors`, `.bin`, `.gguf`, `.onnx` …), their indexes, and
 * names that begin with a dot. Folders inside are left out. In a snapshot of the Hub's cache it follows the links to
 * the blobs. As with `cp`, a file of the same name in the target is replaced. Until the new checkpoint is in place,
 * the old one keeps its files.
 *
 * @throws As `openCheckpoint` and `saveCheckpoint`; SafetensorsError `SAFETENSORS_TARGET_EXISTS`; FormatError
 *   `SAFETENSORS_INDEX_MISMATCH` when the index names a missing tensor; `SAFETENSORS_UNSAFE_SHARD_NAME` also for a link
 *   out of the folder among the other files, FileChangedError when one of them changes while it is copied
 * @throws TensorNotFoundError for an unknown name, InvalidTensorError for one new name for two tensors,
 *   SafetensorsError `SAFETENSORS_DTYPE_MISMATCH` for an impossible cast, SelectionError for several of these; all
 *   before the first write. With `dequantize` QuantizationError, too, for scales that are NaN while writing
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
 * As a dry run: returns the plan and writes nothing.
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
 * As above, for a `dryRun` known only at run time.
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
    openSafetensorsSource(source, { comparison: 'sums', dequantize: selection.dequantize, signal });
  const choices = { selection, shared: 'copy', metadata: new Map(), verify: false } as const;
  const result = await rewriteFolder(target, open, { ...options, ...choices });
  const { dropped, unrecorded, overlaps, ...resharded } = result;
  return resharded;
}
