/** `download`: files of a remote checkpoint onto this machine. */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
  requireString,
} from '../../errors/arguments.js';
import { parseByteSize } from '../../file/shards/sizes.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  type TransferOptions,
} from '../../work/transfer.js';
import type { DryRun, MaybeDryRun } from '../../write/checkpoint/plan.js';
import {
  LOCK_OPTIONS,
  type LockOptions,
  requireLockTimeout,
} from '../../write/replacement/locks.js';
import type { OverwriteOptions } from '../../write/replacement/replaced-files.js';
import {
  readSelection,
  SELECTION_OPTIONS,
  type SelectionOptions,
} from '../../write/selection/options.js';
import type { HeadersInput } from '../credentials.js';
import { remoteSettings } from '../node/settings.js';
import { requireAddress, type SourceChoice } from '../source.js';
import { type DownloadPlan, type DownloadResult, runDownload } from './run-download.js';

/** Options of {@link download}. */
export interface DownloadOptions
  extends TransferOptions,
    LockOptions,
    OverwriteOptions,
    SelectionOptions,
    SourceChoice {
  /**
   * Sent to the server of `source` alone, and only over `https:` or to this machine. For the Hub `HF_TOKEN` or the
   * token file by default; false sends none.
   */
  readonly token?: string | false | undefined;
  /** More headers, for the server of `source` alone. */
  readonly headers?: HeadersInput | undefined;
  /** Sends the requests; the runtime's own by default. */
  readonly fetch?: typeof globalThis.fetch | undefined;
  /**
   * Identifies the contents of the source, such as the id of a version, where the Hub gives no hash: with the length
   * of a file it replaces URL, ETag and `Last-Modified`. Downloads with the same identity and target continue each
   * other's bytes, even without a strong ETag. Pass a new identity for new contents; never an empty one.
   */
  readonly identity?: string | undefined;
  /**
   * Bytes of tensors per file, as for `saveCheckpoint`: the tensors are written anew, in files of that size,
   * into a folder. By default files keep their size, and chosen tensors are split at `'5GB'`, except those of
   * a source that is one file.
   */
  readonly maxShardSize?: number | string | undefined;
  /**
   * Downloads the files of a repository on the Hub, or of a folder in one, whose paths match one of these patterns,
   * whatever is in them; `'*'` all of them. As of Python's `fnmatch`, and as the Hub's Python library reads
   * `allow_patterns`: `*` stands for any characters, also `/`, `?` for one, `[a-z]` and `[!a-z]` for one of a set; a
   * pattern that ends with `/` means all that is in the folder.
   */
  readonly files?: string | readonly string[] | undefined;
  /** As `files`, without the files whose paths match one of these patterns; of all files without `files`. */
  readonly ignore?: string | readonly string[] | undefined;
  /** False skips syncing: a loss of power may leave files without their contents. True by default. */
  readonly durable?: boolean | undefined;
  /** True returns the plan, a {@link DryRun}, and writes nothing. */
  readonly dryRun?: false | undefined;
}

const DOWNLOAD_OPTIONS: OptionNames<DownloadOptions> = {
  ...TRANSFER_OPTIONS,
  ...LOCK_OPTIONS,
  ...SELECTION_OPTIONS,
  token: true,
  headers: true,
  fetch: true,
  identity: true,
  maxShardSize: true,
  files: true,
  ignore: true,
  overwrite: true,
  durable: true,
  dryRun: true,
  variant: true,
  revision: true,
};

/**
 * Downloads a model, or one of its files, byte for byte. For a repository on the Hub, or a folder in one, downloads
 * the checkpoint that `openCheckpoint` would open and the files beside it without weights (`config.json`, tokenizer,
 * README …), or the pipeline of diffusers that `openRemotePipeline` would open, with its folders; for the URL or id of an
 * index the index and its shards; for any other URL or id one file. `source` is as for `openRemote`.
 *
 * One file goes to the path `target` if that ends in `.safetensors`. Any other `target` is a folder, which is created
 * if missing: files get their names there. `'cache'` is the Hub's cache on this machine, as the Hub's
 * Python library lays it out: `openCheckpoint('org/name')`, transformers and others find the model there.
 *
 * Compares every file with its hash on the Hub. Elsewhere its length and strong ETag must stay the same from the
 * first byte to the last. Replaces the target once all files are complete, as `saveFile` and `saveCheckpoint` do;
 * other files in the folder stay. Stops before the first byte when weight files of another origin would be replaced,
 * unless `overwrite` is true.
 *
 * Call it again to continue a broken download: received bytes stay beside the target, in files
 * `.safetensors-mmap-….incomplete`. They are used again for the same contents only: those with the Hub's hash, where
 * a file with a wrong hash is fetched once more; elsewhere those with the same URL (but for its signature), strong
 * ETag, length and `Last-Modified`, or with the same `identity`. Without hash, strong ETag and `identity` no bytes
 * are kept. Files that are already right are not fetched. Up to three files are under way at a time, in pieces of 4
 * MiB, three of each: buffers of 36 MiB at most.
 *
 * With `files` or `ignore` downloads the files of a repository, or of a folder in one, that these patterns choose, into a
 * folder or the cache, also data sets and Spaces (`hf://datasets/org/name`, `hf://spaces/org/name`). Deletes nothing
 * then. An index whose shards are all among the files takes its place with them in one step.
 *
 * With `names` or `select` fetches only these tensors and writes them with new headers, as `saveFile` and
 * `saveCheckpoint` do: to a path if the source is one file, else into a folder. `rename`, `dtype` and `select` rename
 * tensors, or cast them as they arrive. Files beside the weights come along unchanged if no tensor is left out.
 * `dequantize` writes plain weights and configuration, as `reshard` does, of which it fetches the codes as they are
 * needed: up to 16 MiB at a time for each of three files. `overflowed` counts the values received now. After an error only whole files are used again: a broken one begins
 * anew. Buffers are of 48 MiB at most, and of as much more as the tensors had before a cast: 24 MiB from F32 to F16,
 * 96 MiB from F64 to F8.
 *
 * @throws QuantizationError with `dequantize`; TensorNotFoundError, InvalidTensorError, SelectionError and SafetensorsError `SAFETENSORS_DTYPE_MISMATCH`
 *   as `reshard`, for unknown names and impossible casts; FormatError for files that are not safetensors
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
 * const { files, receivedByteLength } = await download(source, 'downloaded');
 * console.log(files.length, receivedByteLength > 0); // → 3 true
 * console.log(openCheckpoint('downloaded').keys()); // → [ 'embed.weight', 'norm.weight' ]
 * ```
 */
export async function download(
  source: string | URL,
  target: string | URL,
  options?: DownloadOptions,
): Promise<DownloadResult>;
/**
 * Plans a download and writes nothing. Requests only lists, indexes and headers.
 *
 * @throws As without `dryRun`
 *
 * @example
 * ```ts
 * const source = 'https://models.example/my-model/model.safetensors.index.json';
 * const { files, index, cast } = await download(source, 'planned', { dtype: 'F16', dryRun: true });
 * console.log(files[0]?.tensors, index, cast.length); // → [ 'embed.weight', 'norm.weight' ] null 2
 * ```
 */
export async function download(
  source: string | URL,
  target: string | URL,
  options: Omit<DownloadOptions, 'dryRun'> & DryRun,
): Promise<DownloadPlan>;
/**
 * Downloads or plans, where only the running program knows which.
 *
 * @throws As without `dryRun`
 *
 * @example
 * ```ts
 * const dryRun = process.env['DRY_RUN'] !== undefined;
 * const source = 'https://models.example/my-model/model.safetensors.index.json';
 * const { files } = await download(source, 'downloaded-or-not', { dryRun });
 * console.log(files.length); // → 3
 * ```
 */
export async function download(
  source: string | URL,
  target: string | URL,
  options: Omit<DownloadOptions, 'dryRun'> & MaybeDryRun,
): Promise<DownloadResult | DownloadPlan>;
export async function download(
  source: string | URL,
  target: string | URL,
  options: Omit<DownloadOptions, 'dryRun'> & MaybeDryRun = {},
): Promise<DownloadResult | DownloadPlan> {
  requireAddress(source);
  requireOptions(options, DOWNLOAD_OPTIONS);
  const { durable = true, dryRun = false, identity } = options;
  requireBoolean('durable', durable);
  requireBoolean('dryRun', dryRun);
  requireBoolean('overwrite', options.overwrite ?? false);
  if (identity !== undefined) requireString('identity', identity);
  if (identity === '') throw argumentRangeError('identity', 'the id of a version', identity);
  requireLockTimeout(options);
  requireTransferOptions(options);
  const selection = readSelection(options);
  const { maxShardSize } = options;
  if (maxShardSize !== undefined) parseByteSize(maxShardSize, 'maxShardSize');
  requirePatterns(options);
  return await runDownload(
    source,
    target,
    { ...options, ...selection, durable, dryRun },
    remoteSettings(),
  );
}

/** Throws for patterns that are no texts, and for options that choose something else. */
function requirePatterns(options: Omit<DownloadOptions, 'dryRun'>): void {
  const { files, ignore, names, select, rename, dtype, dequantize, maxShardSize, variant } =
    options;
  const patterns = Object.entries({ files, ignore }).filter(([, given]) => given !== undefined);
  for (const [name, given] of patterns) {
    if ([given].flat().some((pattern) => typeof pattern !== 'string')) {
      throw argumentTypeError(name, 'a pattern of paths, or an array of them', given);
    }
  }
  const others = { names, select, rename, dtype, dequantize, maxShardSize, variant };
  for (const [name, given] of Object.entries(others)) {
    if (given === undefined || patterns.length === 0) continue;
    const expected = `left out beside ${patterns.map(([each]) => each).join(' and ')}`;
    throw argumentRangeError(name, `${expected}, which choose whole files`, given);
  }
}
