/** The options of `download`, and their checks. */

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
import type { DryRun } from '../../write/checkpoint/plan.js';
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

/** Options of `download`. */
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
   * of a file it replaces URL, ETag and `Last-Modified`. Downloads with the same `versionId` and target continue each
   * other's bytes, even without a strong ETag. Pass a new `versionId` for new contents; never an empty one.
   */
  readonly versionId?: string | undefined;
  /**
   * Bytes of tensors per file, as for `saveCheckpoint`: the tensors are rewritten in files of that size,
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
  /**
   * True repairs a copy that an earlier download, or `hf download`, made: fetches only files that differ from the Hub
   * or are missing, and replaces them in one step each; only weights that are recorded for another repository need
   * `overwrite`. Without a revision, takes the commit that was recorded for the copy. Deletes nothing. Of a large
   * safetensors file with digests, fetches only tensors that differ from their digest, and all of it if the result does
   * not have the Hub's hash. Cannot be combined with `names`, `rename`, `dtype`, `dequantize`, `maxShardSize` and
   * `variant`.
   */
  readonly repair?: boolean | undefined;
  /** False skips syncing: a loss of power may leave files without their contents. True by default. */
  readonly durable?: boolean | undefined;
}

const DOWNLOAD_OPTIONS: OptionNames<DownloadOptions & DryRun> = {
  ...TRANSFER_OPTIONS,
  ...LOCK_OPTIONS,
  ...SELECTION_OPTIONS,
  token: true,
  headers: true,
  fetch: true,
  versionId: true,
  maxShardSize: true,
  files: true,
  ignore: true,
  overwrite: true,
  repair: true,
  durable: true,
  dryRun: true,
  variant: true,
  revision: true,
};

/** As `download`. */
export async function checkedDownload(
  source: string | URL,
  target: string | URL,
  options: DownloadOptions & DryRun = {},
): Promise<DownloadResult | DownloadPlan> {
  requireAddress(source);
  requireOptions(options, DOWNLOAD_OPTIONS);
  const { durable = true, dryRun = false, versionId } = options;
  requireBoolean('durable', durable);
  requireBoolean('dryRun', dryRun);
  requireBoolean('overwrite', options.overwrite ?? false);
  if (versionId !== undefined) requireString('versionId', versionId);
  if (versionId === '') throw argumentRangeError('versionId', 'the id of a version', versionId);
  requireLockTimeout(options);
  requireTransferOptions(options);
  const selection = readSelection(options);
  const { maxShardSize } = options;
  if (maxShardSize !== undefined) parseByteSize(maxShardSize, 'maxShardSize');
  requirePatterns(options);
  requireRepair(options);
  return await runDownload(
    source,
    target,
    { ...options, ...selection, durable, dryRun },
    remoteSettings(),
  );
}

/** Throws for patterns that are not strings, and for options that cannot be combined with patterns. */
function requirePatterns(options: DownloadOptions): void {
  const { files, ignore, names, rename, dtype, dequantize, maxShardSize, variant } = options;
  const patterns = Object.entries({ files, ignore }).filter(([, given]) => given !== undefined);
  for (const [name, given] of patterns) {
    if ([given].flat().some((pattern) => typeof pattern !== 'string')) {
      throw argumentTypeError(name, 'a pattern of paths, or an array of them', given);
    }
  }
  const others = { names, rename, dtype, dequantize, maxShardSize, variant };
  for (const [name, given] of Object.entries(others)) {
    if (given === undefined || patterns.length === 0) continue;
    const expected = `left out with ${patterns.map(([each]) => each).join(' and ')}`;
    throw argumentRangeError(name, `${expected}, which choose whole files`, given);
  }
}

/** Throws for options that cannot be combined with `repair`. */
function requireRepair(options: DownloadOptions): void {
  const { repair = false, names, rename, dtype, dequantize, maxShardSize, variant } = options;
  requireBoolean('repair', repair);
  const others = { names, rename, dtype, dequantize, maxShardSize, variant };
  for (const [name, given] of Object.entries(others)) {
    if (!repair || given === undefined) continue;
    throw argumentRangeError(name, 'left out with repair, which restores whole files', given);
  }
}
