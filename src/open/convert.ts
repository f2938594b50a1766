/** `convert`. Its code loads on the first call. */

import { argumentRangeError } from '../errors/arguments.js';
import { isUrl } from '../errors/brand-checks.js';
import type { DryRun, DryRunResult } from '../write/checkpoint/plan.js';
import type {
  ConversionOptions,
  ConversionPlan,
  ConvertedCheckpoint,
} from '../write/convert/convert.js';
import { isAddress } from './sources/requested.js';
import type { Source } from './sources/sources.js';

/**
 * Converts a checkpoint to safetensors, or splits and merges safetensors files, off the event loop. Never runs code
 * from the source.
 *
 * `source` is a PyTorch checkpoint (`.pt`, `.pth`, `.bin`, `.ckpt`, or the index of its shards), NumPy arrays (`.npz`,
 * `.npy`), a GGUF file, a safetensors file, a folder with one of these, or that of a distributed PyTorch checkpoint.
 * Its first bytes decide its format. `target` is the path of a `.safetensors` file, or of a folder. A folder gets
 * shards and an index when the tensors are larger than `maxShardSize`. Missing folders are created. If the target holds
 * weight files of another source that would be replaced or deleted, the call is rejected before the first write, unless
 * `overwrite` is true.
 *
 * `source` may also be the address of a safetensors, GGUF or distributed model, `hf://org/name` or `https:`. Tensors
 * are written as they arrive. Call it again to continue after an error: complete files are not fetched again. To copy
 * files as they are, or to pass `token` and `headers`, call `download`.
 *
 * `source` may also be bytes of a safetensors file, a descriptor or `FileHandle`, a Blob, a Map of Blobs, or an object
 * with `byteLength` and `read`, as in `open`. `copyOtherFiles` needs a path or an address. Requested tensors are
 * fetched one at a time, each as a whole.
 *
 * `source` may also be a Diffusers pipeline, a folder or a DDUF archive (`.dduf`), and `target` a folder. Each model
 * gets the folder and the file names that it has in the pipeline, and all files without weights are copied. Until the
 * new files are complete, every model keeps its old ones; `model_index.json` is replaced last. `variant` takes the
 * files of a variant in the folders that have it, as `openPipeline` does. `names`, `rename`, `filenamePattern` and
 * `copyOtherFiles: false` are rejected. In the result, names of files and tensors begin with the folder.
 *
 * The kernel copies safetensors bytes from file to file, adjacent tensors together. Short tensors from many places go
 * through buffers of 4 MiB. All other bytes go through memory in pieces of 1 MiB, on the thread pool: they are read,
 * gathered, swapped, inflated or cast, and written. With `verify`, files from PyTorch and NumPy sources are read back
 * and compared. Memory stays small at any size: about 1.1 kB for a tensor with a name of 50 characters. Only a
 * compressed storage is held whole, for a tensor that is strided or only part of it. Files are read, never mapped.
 *
 * Tensors of safetensors keep name, dtype, shape and bytes, shard by shard in the order of each file, also those that
 * the index does not list. The keys of an index stay in the new index, with values of any type, and `total_size` is
 * computed again. Merged into a single file, values become strings (other types as their JSON text), without
 * `total_size`. When a single file is split, its metadata goes into the index, and its `format` also into every shard.
 * A key of the shards goes into every new file if all shards with that key agree on its value. Otherwise it is dropped,
 * and `conflicts` lists it. In a single file, shards win over the index. Aliases stay aliases. The target may be the
 * folder of the source: it is locked, and the new files replace the old ones.
 *
 * If `names` is a function, it receives the dtype null for a tensor that safetensors cannot hold; return false to avoid
 * the error. All problems with names, dtypes and shapes are found before the first write. As with `saveFile` and
 * `saveCheckpoint`, the new files get their names only when they are complete. Casts run on the thread pool and round
 * as PyTorch does. An alias goes with its tensor.
 *
 * `dequantize` writes dequantized weights in place of quantized tensors of safetensors, and `config.json` without
 * quantization, also without `copyOtherFiles`. Files that only describe the quantization, such as
 * `quantize_config.json`, are deleted in the target.
 *
 * `copyOtherFiles` makes the target a model that other programs load. It copies all files from the folder of the
 * index or single file, except weights of any format (`.safetensors`, `.bin`, `.gguf`, `.onnx` …), their indexes, names
 * that begin with a dot, and subfolders. In a snapshot of the Hub cache it follows the links to the blobs. As with
 * `cp`, a file of the same name in the target is replaced. Until the new checkpoint is in place, the old one keeps its
 * files. `config.json` lists the new dtype when all floating-point tensors have it; otherwise `configMismatches` names
 * the disagreement.
 *
 * With `dryRun: true` it returns the plan, writes nothing and compares no checksums.
 *
 * @throws FormatError as `open` and `openPipeline`; `SAFETENSORS_CHECKSUM_MISMATCH` when bytes of the source do not
 *   match their checksum, `SAFETENSORS_INDEX_MISMATCH` when the index names a missing tensor,
 *   `SAFETENSORS_UNSAFE_SHARD_NAME` also for a link out of the folder among the other files; FileChangedError when a
 *   file changes while it is copied
 * @throws TensorNotFoundError for an unknown name, InvalidTensorError for one new name for two tensors;
 *   QuantizationError with `dequantize`, also for scales that are NaN while writing
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
  source: Source,
  target: string | URL,
  options?: ConversionOptions & DryRun<Dry>,
): Promise<DryRunResult<Dry, ConversionPlan, ConvertedCheckpoint>> {
  for (const name of ['token', 'headers']) {
    if (!Object.hasOwn(Object(options), name)) continue;
    throw argumentRangeError(name, 'left out: download() takes it', '…');
  }
  const result = await convertKind(source, target, options);
  return result as DryRunResult<Dry, ConversionPlan, ConvertedCheckpoint>;
}

/** An address whose path ends so; files of other names are safetensors. */
const FOREIGN_NAME = /(?:\.gguf|\/\.metadata)(?:[?#].*)?$/is;

async function convertKind(
  source: Source,
  target: string | URL,
  options: (ConversionOptions & DryRun) | undefined,
): Promise<ConversionPlan | ConvertedCheckpoint> {
  if (typeof source !== 'string' && !isUrl(source)) {
    const { convert } = await import('./convert-opened.js');
    return await convert(source, target, options);
  }
  if (isAddress(source) && FOREIGN_NAME.test(String(source))) {
    const { convert } = await import('./convert-opened.js');
    return await convert(source, target, options);
  }
  const { convert } = isAddress(source)
    ? await import('./convert-remote.js')
    : await import('../write/convert/convert.js');
  return await convert(source, target, options);
}
