/** `convert`. Its code loads on the first call. */

import type { DryRun, DryRunResult } from '../checkpoint/plan.js';
import type { ConversionOptions, ConversionPlan, ConvertedCheckpoint } from './convert.js';

/**
 * Converts a checkpoint to safetensors, off the event loop. Never runs code of the source.
 *
 * `source` is a torch checkpoint (`.pt`, `.pth`, `.bin`, `.ckpt`; its index if it has several files), arrays of NumPy
 * (`.npz`, `.npy`), a safetensors file, or a folder with one of these. Its first bytes decide its format. `target` is
 * the path of a `.safetensors` file, or of a folder, which gets shards and an index when the tensors are larger than
 * `maxShardSize`. Missing folders are made. Stops before the first byte when the target holds weight files of another
 * source that would be replaced or deleted, unless `overwrite` is true.
 *
 * Or `source` is a pipeline of diffusers, as a folder or a DDUF archive (`.dduf`), and `target` a folder: each model
 * gets the folder that it has there, under the names of its files, and all files without weights are copied. Until the
 * new files are complete, every model has its old ones; `model_index.json` is the last. `variant` takes the files of a
 * variant in the folders that have it, as `openPipeline` does; `names`, `rename`, `select`, `filenamePattern` and
 * `copyOtherFiles: false` are refused. In the result names of files and tensors begin with the folder.
 *
 * Bytes go through memory in pieces of 1 MiB, on the thread pool: read, gathered, swapped, inflated or cast, written,
 * read back and compared. Without `verify` the kernel copies bytes that need no change. Memory stays small at any
 * size; only a compressed storage is held whole, and only for a tensor that is a part of it or strided. Files are
 * always read, never mapped, as with `reshard`.
 *
 * `names` and `select` see a tensor that safetensors cannot hold with the dtype null; leaving it out avoids the
 * error. All problems with names, dtypes and shapes are found before the first write, and the new files get their
 * names as with `saveFile` and `saveCheckpoint`: whole, or not at all. With `copyOtherFiles` a folder also gets the
 * files beside the source, as with `reshard`; `dequantize` is as there, for a source that is safetensors.
 *
 * With `dryRun: true` it returns the plan, writes nothing and compares no checksums.
 *
 * @throws FormatError as `open` and `openPipeline`; `SAFETENSORS_CHECKSUM_MISMATCH` when bytes of
 *   the source do not match their checksum
 * @throws SelectionError for several problems with the selection; a single one is thrown as it is
 * @throws SafetensorsError `SAFETENSORS_TARGET_EXISTS`, `SAFETENSORS_VERIFICATION_FAILED`,
 *   `SAFETENSORS_SHARED_TENSORS`; as `saveFile` and `saveCheckpoint`
 *
 * @example
 * ```ts
 * const { files, root } = await convert('model.ckpt', 'converted.safetensors', { dtype: 'BF16' });
 * console.log(files, root); // → [ 'converted.safetensors' ] [ 'state_dict' ]
 *
 * const plan = await convert('model.ckpt', 'planned', { dryRun: true });
 * console.log(plan.files[0]?.name, plan.root); // → model.safetensors [ 'state_dict' ]
 * ```
 */
export async function convert<const Dry extends boolean | undefined = false>(
  source: string | URL,
  target: string | URL,
  options?: ConversionOptions & DryRun<Dry>,
): Promise<DryRunResult<Dry, ConversionPlan, ConvertedCheckpoint>> {
  const { convert: rewrite } = await import('./convert.js');
  const result = await rewrite(source, target, options);
  return result as DryRunResult<Dry, ConversionPlan, ConvertedCheckpoint>;
}
