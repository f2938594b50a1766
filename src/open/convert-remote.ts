/** `convert` of a remote checkpoint: the tensors that `download` writes. */

import { basename } from 'node:path';
import { argumentRangeError, requireBoolean, requireOptions } from '../errors/arguments.js';
import { SafetensorsError } from '../errors/errors.js';
import { SHARD_EXTENSION } from '../file/shards/shard-paths.js';
import { parseByteSize } from '../file/shards/sizes.js';
import { DEFAULT_MAX_SHARD_SIZE } from '../file/shards/split.js';
import { requirePath } from '../platform/io/paths.js';
import {
  type DownloadPlan,
  type DownloadResult,
  runDownload,
} from '../remote/download/run-download.js';
import { remoteSettings } from '../remote/node/settings.js';
import { requireTransferOptions } from '../work/transfer.js';
import type { DryRun } from '../write/checkpoint/plan.js';
import {
  CONVERT_OPTIONS,
  type ConversionOptions,
  type ConversionPlan,
  type ConvertedCheckpoint,
  convert as convertLocal,
  metadataOption,
  requireFileTarget,
} from '../write/convert/convert.js';
import { requireLockTimeout } from '../write/replacement/locks.js';
import { readSelection } from '../write/selection/options.js';
import { convert as convertOpened } from './convert-opened.js';

/** Options for local sources, or for other formats than safetensors, and the values that change nothing. */
const LOCAL_OPTIONS: ReadonlyMap<keyof ConversionOptions, unknown> = new Map([
  ...(['root', 'unknownGlobals', 'voidDtype', 'limits', 'shared'] as const).map(
    (name) => [name, undefined] as const,
  ),
  ...(['filenamePattern', 'variant', 'naming'] as const).map((name) => [name, undefined] as const),
  ['digests', false] as const,
  // Digests that a file declares are compared in any case.
  ['verify', true] as const,
]);

/** What a download finds in the folder of a distributed checkpoint. */
const DISTRIBUTED: readonly unknown[] = ['torch-distributed', 'distributed-part'];

/** As the public `convert`, of an address. */
export async function convert(
  source: string | URL,
  target: string | URL,
  options: ConversionOptions & DryRun = {},
): Promise<ConvertedCheckpoint | ConversionPlan> {
  const settings = remoteSettings();
  if (settings.isOffline && isHubId(source)) return await convertLocal(source, target, options);
  requireOptions(options, CONVERT_OPTIONS);
  for (const [name, unchanged] of LOCAL_OPTIONS) {
    const value = options[name];
    if (value === undefined || value === unchanged) continue;
    throw argumentRangeError(name, 'left out for an address: download the model first', value);
  }
  const selection = readSelection(options);
  const { overwrite = false, durable = true, dryRun = false, copyOtherFiles = false } = options;
  for (const [name, value] of Object.entries({ overwrite, durable, dryRun, copyOtherFiles })) {
    requireBoolean(name, value);
  }
  requireLockTimeout(options);
  requireTransferOptions(options);
  const metadata = metadataOption(options);
  const path = requirePath('target', target);
  const isFile = path.endsWith(SHARD_EXTENSION);
  if (isFile) requireFileTarget(path, options);
  const { maxShardSize = DEFAULT_MAX_SHARD_SIZE, signal, onProgress, lockTimeout } = options;
  parseByteSize(maxShardSize, 'maxShardSize');
  const downloading = {
    ...selection,
    ...{ overwrite, durable, dryRun, copyOtherFiles, metadata, signal, onProgress, lockTimeout },
    ...(isFile ? {} : { maxShardSize }),
    isRewritten: true,
  };
  let done: DownloadResult | DownloadPlan;
  try {
    done = await runDownload(source, target, downloading, settings);
  } catch (error) {
    // Pieces cannot be copied as they arrive.
    if (!isOfPieces(error, source)) throw error;
    return await convertOpened(source, target, options);
  }
  const { index, totalSize, byteLength, commit, repaired, ...info } = done;
  // The only file has the name of the target.
  const files = isFile
    ? [...done.files].map((file) => ({ ...file, name: basename(path) }))
    : done.files;
  const weights = files.filter(({ name }) => name.endsWith(SHARD_EXTENSION));
  const opened = files.find(({ name }) => name === index) ?? weights[0];
  const others = files.filter((file) => file !== opened && !weights.includes(file));
  const written = {
    ...{ path: opened?.path as string, index, totalSize: totalSize as number, root: [] },
    ...{ copied: others.map(({ name }) => name) },
    ...{ dropped: new Map(), unrecorded: [], overlaps: [] },
  };
  if (!('downloadedBytes' in info)) {
    const planned = (files as DownloadPlan['files']).map(({ path: _, ...file }) => file);
    return { ...info, ...written, files: planned };
  }
  const { downloadedBytes, reusedBytes, ...result } = info;
  return { ...result, ...written, files: weights.map(({ name }) => name) };
}

/** Whether a failed download found a distributed checkpoint, or may have: a server does not list a folder. */
function isOfPieces(error: unknown, source: string | URL): boolean {
  if (!(error instanceof SafetensorsError)) return false;
  const isFolder = /^https?:[^?#]*\/(?:[?#].*)?$/is.test(String(source));
  return isFolder || DISTRIBUTED.includes(error.foundFormat);
}

/** Whether an address is an id of the Hub, whose cache may have the model. */
function isHubId(source: string | URL): boolean {
  return /^hf:/i.test(String(source));
}
