/** Runs one download, from finding the source to the files of the target. */

import { lstatSync } from 'node:fs';
import { dirname, join, sep } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import type { FilePatterns } from '../../file/hub/file-patterns.js';
import { pathObjection } from '../../file/shards/shard-paths.js';
import { pathText } from '../../platform/io/paths.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { Transfer, type TransferOptions } from '../../platform/transfer/transfer.js';
import { inLockedFolder, inMadeFolder } from '../../write/checkpoint/locked-folder.js';
import type { PlannedFile, WritePlan } from '../../write/checkpoint/plan.js';
import { isFolderAt, requireMakeableFolder } from '../../write/replacement/made-folders.js';
import { requireReplaceableFile } from '../../write/save/replace-file.js';
import { selectsAll } from '../../write/selection/options.js';
import type { SelectionReport } from '../../write/selection/selection-report.js';
import type { RemoteSettings } from '../receiver.js';
import { ofEach, withScope } from '../scope.js';
import { type SessionSettings, type SourceChoice, sourceSession } from '../source.js';
import { CacheFolder } from './cache-target.js';
import { downloadToFile } from './file-target.js';
import { downloadToFolder, groupsOf, wouldDeleteIn } from './folder-target.js';
import { requireLocalNames } from './local-names.js';
import type { PlaceOf } from './model-files.js';
import { planFiles } from './plan-files.js';
import { planPipeline } from './plan-pipeline.js';
import { planTensors, type TensorsOptions } from './plan-tensors.js';
import { planWhole } from './plan-whole.js';
import type { ReceivedBytes } from './receive-all.js';
import {
  findSourceFiles,
  type IdentityOptions,
  isIndexName,
  QUESTIONS_AT_ONCE,
  type SourceFiles,
} from './source-files.js';
import type { TargetOptions } from './target-options.js';
import {
  allFiles,
  type DownloadScope,
  receivedFiles,
  type WantedFile,
  type WantedFiles,
} from './wanted-file.js';

/** Options of one download. */
export interface RunOptions
  extends TransferOptions,
    TargetOptions,
    SessionSettings,
    IdentityOptions,
    SourceChoice,
    FilePatterns,
    TensorsOptions {}

/** Options of a download that may be a dry run. */
type RunOrPlanOptions = RunOptions & { readonly dryRun?: boolean };

/** A file that was downloaded, or already there. */
export interface DownloadedFile {
  /** Its path below the folder of the source, with `/`. */
  readonly name: string;
  /** Path of the file. */
  readonly path: string;
  /** Its length in bytes. */
  readonly byteLength: number;
}

/** A file that would be downloaded. */
export interface PlannedDownload extends DownloadedFile, PlannedFile {}

/** The plan of `download`, returned with `dryRun: true`. */
export interface DownloadPlan
  extends WritePlan,
    Pick<DownloadResult, 'path' | 'commit' | 'byteLength' | 'skipped'>,
    Omit<SelectionReport, 'overflowed'> {
  /** All files, also those that are already there: files with tensors, their index, and others. */
  readonly files: readonly PlannedDownload[];
}

/** The result of `download`. */
export interface DownloadResult extends SelectionReport {
  /** The file or folder to pass to `openCheckpoint`; in the Hub's cache that of the snapshot. */
  readonly path: string;
  /** All files, also those that were already there: files with tensors, their index, and others. */
  readonly files: readonly DownloadedFile[];
  /** Their commit on the Hub; null for other sources. */
  readonly commit: string | null;
  /** Length of all files in bytes. */
  readonly byteLength: number;
  /** Bytes received now. */
  readonly receivedByteLength: number;
  /** Bytes that were already there: whole files, and partial files of a broken download. */
  readonly presentByteLength: number;
  /** Names of files of an earlier checkpoint in the folder that were deleted. */
  readonly deleted: readonly string[];
  /** Names of files of an earlier checkpoint that could not be deleted. */
  readonly undeleted: readonly string[];
  /** Names of files beside the weights that were left out: longer than 256 MiB, or with unsafe or too long names. */
  readonly skipped: readonly string[];
}

/** The name of the target that is the Hub's cache. */
const CACHE = 'cache';

/** Downloads or plans. Closes everything in any case. */
export async function runDownload(
  source: string | URL,
  target: string | URL,
  options: RunOptions & { readonly dryRun: boolean },
  settings: RemoteSettings,
): Promise<DownloadResult | DownloadPlan>;
export async function runDownload(
  source: string | URL,
  target: string | URL,
  options: RunOptions,
  settings: RemoteSettings,
): Promise<DownloadResult>;
export async function runDownload(
  source: string | URL,
  target: string | URL,
  options: RunOrPlanOptions,
  settings: RemoteSettings,
): Promise<DownloadResult | DownloadPlan> {
  const path = pathText('target', target);
  const opened = sourceSession(source, options, settings);
  try {
    return await withScope([options.signal], async (scope) => {
      const found = await findSourceFiles(opened, options, scope.signal);
      const isUnlisted = found.unlisted !== undefined;
      const needsList = target === CACHE || (found.name === null && !choosesFiles(options));
      if (isUnlisted && needsList) throw found.unlisted;
      if (target === CACHE) return await toCache(found, options, scope);
      if (isOneFile(found) && options.maxShardSize === undefined) {
        return await toFile(found, path, options, scope);
      }
      return await inLockedFolder(path, { ...options, signal: scope.signal }, (folder) =>
        toFolder(found, folder, options, scope),
      );
    });
  } catch (error) {
    throw opened.session.withoutSecrets(error);
  } finally {
    opened.session.close();
  }
}

async function toCache(
  source: SourceFiles,
  options: RunOrPlanOptions,
  scope: AbortController,
): Promise<DownloadResult | DownloadPlan> {
  if (source.hub === null) {
    throw argumentRangeError('target', "a path, since 'cache' is for sources on the Hub", CACHE);
  }
  if (!isWhole(options)) {
    const expected = "a path, since 'cache' is for whole files, whose tensors stay as they are";
    throw argumentRangeError('target', expected, CACHE);
  }
  const cache = new CacheFolder(source.hub);
  const placeOf: PlaceOf = (file) => cache.pathOf(file);
  const plan = await planFor(source, options, placeOf, scope.signal);
  requirePlannedNames(plan, source);
  const path = isOneFile(source) ? placeOf({ name: source.name }) : cache.snapshot;
  if (options.dryRun === true) return await planOf(plan, path, placeOf, [], scope.signal);
  const received = await cache.fill(plan, options, scopeOf(allFiles(plan), options, scope));
  return resultOf(plan, path, placeOf, received);
}

/** Whether a source is one file, which is no index. */
function isOneFile(source: SourceFiles): source is SourceFiles & { readonly name: string } {
  return source.name !== null && !isIndexName(source.name);
}

/** The plan for chosen files, for a whole model or pipeline, or for chosen tensors. */
async function planFor(
  source: SourceFiles,
  options: RunOptions,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<WantedFiles> {
  if (choosesFiles(options)) return await planFiles(source, options, placeOf, signal);
  if (!isWhole(options)) return await planTensors(source, options, placeOf, signal);
  try {
    return await planWhole(source, placeOf, signal);
  } catch (error) {
    if (!hasCode(error, ['SAFETENSORS_DIFFUSERS_PIPELINE'])) throw error;
    return await planPipeline(source, placeOf, signal);
  }
}

/** Whether files are chosen by patterns. */
function choosesFiles({ files, ignore }: FilePatterns): boolean {
  return files !== undefined || ignore !== undefined;
}

/**
 * The path for one file: in an existing folder the file gets its name at the source. Refuses a link of that name:
 * writing through a link is only meant if the caller names its path.
 */
function filePath(target: string, { name, path: source }: SourceFiles): string {
  const isFolder = isFolderAt(target) === true;
  if (!isFolder) {
    if (!target.endsWith('/') && !target.endsWith(sep)) return target;
    const expected = 'the path of a file, or a folder that is there, since the source is one file';
    throw argumentRangeError('target', expected, target);
  }
  if (name === null || pathObjection(name) !== null) {
    const expected = 'the path of a file, since the source has no name that a file can have';
    throw argumentRangeError('target', expected, target);
  }
  requireLocalNames([name], source);
  const path = join(target, name);
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return path;
  const expected = 'a folder without a link of the name that the file gets, or the path of a file';
  throw argumentRangeError('target', expected, path);
}

async function toFile(
  source: SourceFiles,
  target: string,
  options: RunOrPlanOptions,
  scope: AbortController,
): Promise<DownloadResult | DownloadPlan> {
  const path = filePath(target, source);
  const limit = isWhole(options) ? {} : { maxShardSize: Number.POSITIVE_INFINITY };
  const planned = await planFor(source, { ...options, ...limit }, () => path, scope.signal);
  // The configuration of plain weights has no place beside a file that may lie in any folder.
  const plan = { ...planned, others: [] };
  if (options.dryRun === true) {
    requireMakeableFolder(dirname(path));
    requireReplaceableFile(path);
    return await planOf(plan, path, () => path, [], scope.signal);
  }
  const [file] = receivedFiles(plan) as [WantedFile];
  const received = await inMadeFolder(dirname(path), options.durable, () =>
    downloadToFile(file, path, options, scopeOf([file], options, scope)),
  );
  return resultOf(plan, path, () => path, received);
}

async function toFolder(
  source: SourceFiles,
  folder: string,
  options: RunOrPlanOptions,
  scope: AbortController,
): Promise<DownloadResult | DownloadPlan> {
  const placeOf: PlaceOf = ({ name }) => join(folder, name);
  const plan = await planFor(source, options, placeOf, scope.signal);
  requirePlannedNames(plan, source);
  if (options.dryRun === true) {
    const deleted = groupsOf(plan, folder).flatMap(wouldDeleteIn);
    return await planOf(plan, folder, placeOf, deleted, scope.signal);
  }
  const inTransfer = scopeOf(receivedFiles(plan), options, scope);
  const received = await downloadToFolder(plan, folder, options, inTransfer);
  return resultOf(plan, folder, placeOf, received);
}

function requirePlannedNames(plan: WantedFiles, { path }: SourceFiles): void {
  requireLocalNames(
    allFiles(plan).map(({ name }) => name),
    path,
  );
}

/** Whether files are copied unchanged. */
function isWhole(options: TensorsOptions): boolean {
  return selectsAll(options) && options.maxShardSize === undefined;
}

function scopeOf(
  files: readonly WantedFile[],
  { onProgress }: RunOptions,
  scope: AbortController,
): DownloadScope {
  const { signal } = scope;
  const transfer = new Transfer(lengthOf(files), { signal, onProgress });
  return { transfer, signal, abort: (reason) => scope.abort(reason) };
}

function lengthOf(files: readonly WantedFile[]): number {
  return files.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** The plan for these files. */
async function planOf(
  plan: WantedFiles,
  path: string,
  placeOf: PlaceOf,
  deleted: readonly string[],
  signal: AbortSignal,
): Promise<DownloadPlan> {
  const { commit, models, skipped, report } = plan;
  const planned = async (file: WantedFile, ends: AbortSignal): Promise<PlannedDownload> => {
    const { name, byteLength } = file;
    const tensors = await plan.tensorsIn(file, ends);
    return { name, path: placeOf(file), byteLength, tensors };
  };
  const files = await ofEach(allFiles(plan), QUESTIONS_AT_ONCE, planned, signal);
  const { overflowed, ...known } = report;
  const byteLength = lengthOf(allFiles(plan));
  const index = models.length === 1 ? (models[0]?.index?.name ?? null) : null;
  const facts = { path, commit, index, byteLength };
  return { ...facts, files, deleted, skipped, ...known };
}

function resultOf(
  plan: WantedFiles,
  path: string,
  placeOf: PlaceOf,
  received: ReceivedBytes & { readonly deleted?: string[]; readonly undeleted?: string[] },
): DownloadResult {
  const files = allFiles(plan);
  const { commit, skipped, report } = plan;
  return {
    path,
    files: files.map((file) => ({
      name: file.name,
      path: placeOf(file),
      byteLength: file.byteLength,
    })),
    commit,
    byteLength: lengthOf(files),
    deleted: [],
    undeleted: [],
    ...received,
    skipped,
    ...report,
  };
}
