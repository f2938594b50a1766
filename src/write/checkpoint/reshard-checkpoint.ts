/** `reshard`. Its code loads on the first call. */

import type { DryRun, DryRunResult } from './plan.js';
import type { ReshardedCheckpoint, ReshardOptions, ReshardPlan } from './reshard.js';

/**
 * Writes a checkpoint into a folder in files of another size: splits, merges (`maxShardSize: Infinity` gives one
 * file) or both. `source` is anything that `safeOpen` opens. The target may be the folder of the source: as
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
 * With `dryRun: true` it returns the plan and writes nothing.
 *
 * @throws As `safeOpen` and `saveCheckpoint`; SafetensorsError `SAFETENSORS_TARGET_EXISTS`; FormatError
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
 *
 * const plan = await reshard('my-model', 'my-model', { maxShardSize: Infinity, dryRun: true });
 * console.log(plan.files.length, plan.deleted.length); // → 1 3
 * ```
 */
export async function reshard<const Dry extends boolean | undefined = false>(
  source: string | URL,
  target: string | URL,
  options?: ReshardOptions & DryRun<Dry>,
): Promise<DryRunResult<Dry, ReshardPlan, ReshardedCheckpoint>> {
  const { reshard: rewrite } = await import('./reshard.js');
  const result = await rewrite(source, target, options);
  return result as DryRunResult<Dry, ReshardPlan, ReshardedCheckpoint>;
}
