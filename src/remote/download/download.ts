/** `download`. Its code loads on the first call. */

import type { DryRun, DryRunResult } from '../../write/checkpoint/plan.js';
import type { DownloadOptions } from './checked-download.js';
import type { DownloadPlan, DownloadResult } from './run-download.js';

/**
 * Downloads a model, or one of its files, byte for byte. `source` is as for `open`. For a repository on the Hub, or a
 * folder in one, downloads the checkpoint that `safeOpen` would open and the sibling files without weights
 * (`config.json`, tokenizer, README …). For a Diffusers pipeline, downloads it with its folders. For the URL or id of
 * an index, downloads the index and its shards; for any other URL or id one file.
 *
 * One file goes to the path `target` if that ends in `.safetensors`. Any other `target` is a folder, which is created
 * if missing: files get their names there. `'cache'` is the local Hub cache, in the layout of the Hub's Python
 * library: `safeOpen('org/name')`, transformers and others find the model there.
 *
 * Compares every file with its hash on the Hub. On other servers, its length and strong ETag must stay the same from
 * the first byte to the last. Replaces the target once all files are complete, as `saveFile` and `saveCheckpoint` do;
 * other files in the folder stay. If weight files of another origin would be replaced, the call is rejected before the
 * first write, unless `overwrite` is true.
 *
 * Call it again to resume a failed download. Received bytes stay next to the target, in files
 * `.safetensors-mmap-….incomplete`. They are reused only for the same contents: those with the Hub's hash, or, on other
 * servers, those with the same URL (without its signature), strong ETag, length and `Last-Modified`, or with the same
 * `versionId`. Without hash, strong ETag and `versionId` no bytes are retained. A file with a wrong hash is fetched
 * once more. Files that are already right are not fetched. Up to three files are in flight at a time, each in three
 * pieces of 4 MiB: buffers take up to 36 MiB.
 *
 * With `files` or `ignore`, downloads the files that these patterns match in a repository, or in a folder of one, into
 * a folder or the cache, also from data sets and Spaces (`hf://datasets/org/name`, `hf://spaces/org/name`). Deletes
 * nothing then. An index whose shards all match is replaced together with them, in one step.
 *
 * With `names`, fetches only these tensors and writes them with new headers, as `saveFile` and `saveCheckpoint` do: to
 * a path if the source is one file, else into a folder. `rename` renames tensors; `dtype` casts them as they arrive. If
 * no tensor is left out, files next to the weights are copied unchanged. `dequantize` writes dequantized weights and
 * configuration, as `convert` does. It fetches codes when they are needed: up to 16 MiB at a time for each of three
 * files. `overflowed` counts only values received by this call. After an error only complete files are reused; others
 * start from scratch. Buffers take up to 48 MiB, plus the difference in size of a cast: 24 MiB from F32 to F16, 96 MiB
 * from F64 to F8.
 *
 * With `repair: true`, fetches only the files of a copy that differ from the Hub or are missing: see the option.
 *
 * With `dryRun: true` it returns the plan and writes nothing. Requests only lists, indexes and headers.
 *
 * @throws QuantizationError with `dequantize`; TensorNotFoundError, InvalidTensorError, SelectionError and
 *   SafetensorsError `SAFETENSORS_DTYPE_MISMATCH` as `convert`, for unknown names and impossible casts; FormatError for
 *   files that are not safetensors
 * @throws RemoteError whose code is the reason why a file is unavailable, such as `SAFETENSORS_XET_ONLY`, or
 *   `SAFETENSORS_REMOTE_NOT_FOUND` also if no file matches the patterns, or
 *   `SAFETENSORS_BAD_RESPONSE` for a file with a wrong hash after two attempts
 * @throws FileChangedError when a file changes on the server meanwhile
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND`, `SAFETENSORS_DIFFUSERS_PIPELINE` for a repository
 *   without a checkpoint, and for tensors chosen in one with several; `SAFETENSORS_LOCKED`, and others as `saveCheckpoint`
 * @throws SafetensorsError `SAFETENSORS_TARGET_EXISTS`
 * @throws Error Node's own `ENOSPC`, before anything is fetched, `EACCES` and the like; `signal.reason`
 *
 * @example
 * ```ts
 * const source = 'https://models.example/my-model/model.safetensors.index.json';
 * const { files, downloadedBytes } = await download(source, 'downloaded');
 * console.log(files.length, downloadedBytes > 0); // → 3 true
 * console.log(safeOpen('downloaded').keys()); // → [ 'embed.weight', 'norm.weight' ]
 *
 * const plan = await download(source, 'planned', { dtype: 'F16', dryRun: true });
 * console.log(plan.files[0]?.tensors, plan.cast.length); // → [ 'embed.weight', 'norm.weight' ] 2
 * ```
 */
export async function download<const Dry extends boolean | undefined = false>(
  source: string | URL,
  target: string | URL,
  options?: DownloadOptions & DryRun<Dry>,
): Promise<DryRunResult<Dry, DownloadPlan, DownloadResult>> {
  const { checkedDownload } = await import('./checked-download.js');
  const result = await checkedDownload(source, target, options);
  return result as DryRunResult<Dry, DownloadPlan, DownloadResult>;
}
