/** `download`. Its code loads on the first call. */

import type { DryRun, DryRunResult } from '../../write/checkpoint/plan.js';
import type { DownloadOptions } from './checked-download.js';
import type { DownloadPlan, DownloadResult } from './run-download.js';

/**
 * Downloads a model, or one of its files, byte for byte. For a repository on the Hub, or a folder in one, downloads
 * the checkpoint that `safeOpen` would open and the sibling files without weights (`config.json`, tokenizer,
 * README …), or the pipeline of diffusers that `openPipeline` would open, with its folders; for the URL or id of an
 * index the index and its shards; for any other URL or id one file. `source` is as for `open`.
 *
 * One file goes to the path `target` if that ends in `.safetensors`. Any other `target` is a folder, which is created
 * if missing: files get their names there. `'cache'` is the Hub's cache on this machine, as the Hub's
 * Python library lays it out: `safeOpen('org/name')`, transformers and others find the model there.
 *
 * Compares every file with its hash on the Hub. Elsewhere its length and strong ETag must stay the same from the
 * first byte to the last. Replaces the target once all files are complete, as `saveFile` and `saveCheckpoint` do;
 * other files in the folder stay. Stops before the first byte when weight files of another origin would be replaced,
 * unless `overwrite` is true.
 *
 * Call it again to continue a broken download: received bytes stay beside the target, in files
 * `.safetensors-mmap-….incomplete`. They are used again for the same contents only: those with the Hub's hash, where
 * a file with a wrong hash is fetched once more; elsewhere those with the same URL (but for its signature), strong
 * ETag, length and `Last-Modified`, or with the same `versionId`. Without hash, strong ETag and `versionId` no bytes
 * are kept. Files that are already right are not fetched. Up to three files are under way at a time, in pieces of 4
 * MiB, three of each: buffers of 36 MiB at most.
 *
 * With `files` or `ignore` downloads the files of a repository, or of a folder in one, that these patterns choose, into a
 * folder or the cache, also data sets and Spaces (`hf://datasets/org/name`, `hf://spaces/org/name`). Deletes nothing
 * then. An index whose shards are all among the files takes its place with them in one step.
 *
 * With `names` fetches only these tensors and writes them with new headers, as `saveFile` and `saveCheckpoint` do: to a
 * path if the source is one file, else into a folder. `rename` renames tensors; `dtype` casts them as they arrive. If
 * no tensor is left out, files next to the weights are copied unchanged. `dequantize` writes dequantized weights and
 * configuration, as `convert` does. It fetches the codes when they are needed: up to 16 MiB at a time for each of three
 * files. `overflowed` counts only values received by this call. After an error only complete files are used again;
 * others start from scratch. Buffers take up to 48 MiB, plus the difference in size that a cast makes: 24 MiB from F32
 * to F16, 96 MiB from F64 to F8.
 *
 * With `dryRun: true` it returns the plan and writes nothing. Requests only lists, indexes and headers.
 *
 * @throws QuantizationError with `dequantize`; TensorNotFoundError, InvalidTensorError, SelectionError and SafetensorsError `SAFETENSORS_DTYPE_MISMATCH`
 *   as `convert`, for unknown names and impossible casts; FormatError for files that are not safetensors
 * @throws RemoteError whose code tells why a file is unavailable, such as `SAFETENSORS_XET_ONLY`, or
 *   `SAFETENSORS_REMOTE_NOT_FOUND` also if no file matches the patterns, or
 *   `SAFETENSORS_BAD_RESPONSE` for a file with a wrong hash after two tries
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
