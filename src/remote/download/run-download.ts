/** Runs one download, from finding the source to the files of the target. */

import { existsSync, lstatSync } from 'node:fs';
import { basename, dirname, extname, join } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import type { FilePatterns } from '../../file/hub/file-patterns.js';
import { canonicalFileNames } from '../../file/shards/file-choice.js';
import { pathError, SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { requirePath } from '../../platform/io/paths.js';
import { ofEach, withScope } from '../../work/scope.js';
import { Transfer, type TransferOptions } from '../../work/transfer.js';
import type { ConfigMismatch } from '../../write/checkpoint/cast-config.js';
import {
  inCreatedFolder,
  inLockedFolder,
  requireFolderName,
  requireLocalTarget,
} from '../../write/checkpoint/locked-folder.js';
import type { OldFiles } from '../../write/checkpoint/old-files.js';
import type { PlannedFile, WritePlan } from '../../write/checkpoint/plan.js';
import { isFolderAt, requireMakeableFolder } from '../../write/replacement/create-directories.js';
import {
  type OverwritePlan,
  overwritePlan,
  type ReplacedFile,
} from '../../write/replacement/replaced-files.js';
import { requireReplaceableFile } from '../../write/save/replace-file.js';
import { selectsAll } from '../../write/selection/options.js';
import type { SelectionReport } from '../../write/selection/selection-report.js';
import { requireModel } from '../found-file.js';
import type { RemoteSettings } from '../receiver.js';
import { addressOf, type SessionSettings, type SourceChoice, sourceSession } from '../source.js';
import { CacheFolder } from './cache-target.js';
import {
  allFiles,
  type DownloadItem,
  type DownloadItems,
  type DownloadScope,
  receivedFiles,
} from './download-item.js';
import { downloadToFile, replacedAt } from './file-target.js';
import { downloadToFolder, findIn, foreignIn, groupsOf } from './folder-target.js';
import { requireLocalNames } from './local-names.js';
import type { PlaceOf } from './model-files.js';
import { findModel } from './model-files.js';
import { planFiles } from './plan-files.js';
import { planPipeline } from './plan-pipeline.js';
import { planTensors, type TensorsOptions } from './plan-tensors.js';
import { planWhole } from './plan-whole.js';
import type { ReceivedBytes } from './receive-all.js';
import {
  filesToRepair,
  planRepair,
  type RepairedFile,
  recordedCommit,
  repairing,
} from './repair.js';
import { isRecorded, recordRepository, unrecordedAmong } from './repository-record.js';
import {
  findSourceFiles,
  isIndexName,
  QUESTIONS_AT_ONCE,
  type SourceFiles,
  type VersionOptions,
} from './source-files.js';
import type { Repository, TargetOptions } from './target-options.js';

/** Options of one download. */
export interface RunOptions
  extends TransferOptions,
    TargetOptions,
    SessionSettings,
    VersionOptions,
    SourceChoice,
    FilePatterns,
    TensorsOptions {
  /** Whether the target is a damaged copy. */
  readonly repair?: boolean | undefined;
}

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
    Pick<
      DownloadResult,
      | 'path'
      | 'commit'
      | 'byteLength'
      | 'totalSize'
      | 'skipped'
      | 'conflicts'
      | 'configMismatches'
      | 'repaired'
    >,
    Omit<SelectionReport, 'overflowed'> {
  /** All files, also those that are already there: files with tensors, their index, and others. */
  readonly files: readonly PlannedDownload[];
}

/** The result of `download`. */
export interface DownloadResult extends SelectionReport {
  /** The file or folder to pass to `safeOpen`; in the Hub cache that of the snapshot. */
  readonly path: string;
  /** All files, also those that were already there: files with tensors, their index, and others. */
  readonly files: readonly DownloadedFile[];
  /** Their commit on the Hub; null for other sources. */
  readonly commit: string | null;
  /** Name of the index; null for a single file, and for several models. */
  readonly index: string | null;
  /** Length of all files in bytes. */
  readonly byteLength: number;
  /** Length of all tensors in bytes; null where files are copied, whose headers are not read. */
  readonly totalSize: number | null;
  /** Bytes received now. */
  readonly downloadedBytes: number;
  /** Bytes that were already there: whole files, and partial files of a broken download. */
  readonly reusedBytes: number;
  /** Names of files of an earlier checkpoint in the folder that were deleted. */
  readonly deleted: readonly string[];
  /** Names of files of an earlier checkpoint that could not be deleted. */
  readonly failedDeletions: readonly string[];
  /** Files that existed before and were replaced or deleted, with their lengths; none in the Hub cache. */
  readonly replaced: readonly ReplacedFile[];
  /** Names of files next to the weights that were left out: longer than 256 MiB, or with unsafe or too long names. */
  readonly skipped: readonly string[];
  /**
   * Keys of metadata with different values in the files of the source, of which at most one was written; none where
   * whole files are downloaded.
   */
  readonly conflicts: readonly string[];
  /** With `repair`: the files that differed, or were missing, and why; else none. */
  readonly repaired: readonly RepairedFile[];
  /** After a cast: configurations in the target that list a dtype which the tensors do not have. */
  readonly configMismatches: readonly ConfigMismatch[];
}

/** The name of the target that is the Hub cache. */
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
  const path = requirePath('target', target);
  if (path.endsWith(SHARD_EXTENSION)) requireLocalTarget('target', path);
  else if (target !== CACHE) requireFolderName('target', path);
  if (options.repair !== true) return await runAt(source, target, options, settings);
  const recorded = await recordedFor(source, target, options, settings);
  if (recorded === undefined) return await runAt(source, target, options, settings);
  try {
    const revision = recorded.commit;
    return await runAt(source, target, { ...options, revision }, settings);
  } catch (error) {
    const isUnknown = Object(error).code === 'SAFETENSORS_REVISION_NOT_FOUND';
    if (recorded.isCertain || !isUnknown) throw error;
    return await runAt(source, target, options, settings);
  }
}

/** The commit of the copy to repair, unless the caller names a revision. */
async function recordedFor(
  source: string | URL,
  target: string | URL,
  options: RunOptions,
  settings: RemoteSettings,
): ReturnType<typeof recordedCommit> {
  const { hub } = addressOf(source, options, settings);
  if (hub === null) {
    throw argumentRangeError('repair', 'left out for a source that is not on the Hub', true);
  }
  if (hub.id.revision !== undefined) return undefined;
  return await recordedCommit(hub, requirePath('target', target), options.signal);
}

/** Downloads or plans, from the revision that the options or the source name. */
async function runAt(
  source: string | URL,
  target: string | URL,
  options: RunOrPlanOptions,
  settings: RemoteSettings,
): Promise<DownloadResult | DownloadPlan> {
  const path = requirePath('target', target);
  const opened = sourceSession(source, options, settings);
  const repaired: RepairedFile[] = [];
  try {
    return await withScope([options.signal], async (scope) => {
      const listed = await findSourceFiles(opened, options, scope.signal);
      const found = options.repair === true ? repairing(listed, repaired) : listed;
      const isUnlisted = found.unlisted !== undefined;
      const needsList = target === CACHE || (found.name === null && !choosesFiles(options));
      if (isUnlisted && (needsList || options.repair === true)) throw found.unlisted;
      if (target === CACHE) return await toCache(found, options, repaired, scope);
      if (isForFile(path, found, options)) {
        return await toFile(found, path, options, repaired, scope);
      }
      return await inLockedFolder(path, { ...options, signal: scope.signal }, (folder) =>
        toFolder(found, folder, options, repaired, scope),
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
  repaired: RepairedFile[],
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
  const isMissing = (file: DownloadItem): boolean => !cache.hasPlace(file);
  repaired.push(...(await knownRepairs(plan, placeOf, options, scope.signal, isMissing)));
  if (options.dryRun === true) {
    return await planOf(plan, path, placeOf, { ...NOTHING_OLD, repaired }, scope.signal);
  }
  const received = await cache.fill(plan, options, scopeOf(allFiles(plan), options, scope));
  return resultOf(plan, path, placeOf, { ...received, repaired });
}

/** Files to repair that are known before any is received: in a dry run all of them, else missing ones and indexes. */
async function knownRepairs(
  plan: DownloadItems,
  placeOf: PlaceOf,
  { repair, dryRun }: RunOrPlanOptions,
  signal: AbortSignal,
  isMissing = (file: DownloadItem): boolean => !existsSync(placeOf(file)),
): Promise<RepairedFile[]> {
  if (repair !== true) return [];
  const indexes = new Set<DownloadItem>(plan.models.flatMap(({ index }) => index ?? []));
  const files = allFiles(plan).filter((file) => {
    return dryRun === true || indexes.has(file) || isMissing(file);
  });
  return await filesToRepair(files, placeOf, signal);
}

/** Whether a source is one file, which is no index. */
function isOneFile(source: SourceFiles): source is SourceFiles & { readonly name: string } {
  return source.name !== null && !isIndexName(source.name);
}

/**
 * Whether the target is one file: a path that ends in `.safetensors`, or any for a source that is one file, which gets
 * its name in a folder.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for options that need a folder
 */
function isForFile(path: string, source: SourceFiles, options: RunOptions): boolean {
  const isFile = path.endsWith(SHARD_EXTENSION) && isFolderAt(path) !== true;
  for (const name of ['maxShardSize', 'files', 'ignore'] as const) {
    if (options[name] === undefined) continue;
    if (isFile) throw argumentRangeError('target', `a folder, since ${name} is given`, path);
    if (name === 'maxShardSize') return false;
  }
  return isFile || isOneFile(source);
}

/** The plan for chosen files, for a whole model or pipeline, or for chosen tensors. */
async function planFor(
  source: SourceFiles,
  options: RunOptions,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadItems> {
  if (choosesFiles(options)) return await planFiles(source, options, placeOf, signal);
  const repair = options.repair === true ? await planRepair(source, placeOf, signal) : null;
  if (repair !== null) return repair;
  if (!isWhole(options)) return await planTensors(source, options, placeOf, signal);
  const model = await findModel(source, placeOf, signal);
  return 'error' in model && model.kind === 'pipeline'
    ? await planPipeline(source, placeOf, signal)
    : await planWhole(source, requireModel(model), placeOf, signal);
}

/** Whether files are chosen by patterns. */
function choosesFiles({ files, ignore }: FilePatterns): boolean {
  return files !== undefined || ignore !== undefined;
}

/**
 * The path for one file: a path that ends in `.safetensors` is the file's; any other is the folder in which the file
 * gets its name at the source. Refuses a link of that name: writing through a link is only meant if the caller names
 * its path.
 */
function filePath(target: string, { name, path: source }: SourceFiles): string {
  if (target.endsWith(SHARD_EXTENSION) && isFolderAt(target) !== true) return target;
  if (name === null || pathError(name) !== null) {
    const expected = `a path that ends in ${SHARD_EXTENSION}, since the source has no name that a file can have`;
    throw argumentRangeError('target', expected, target);
  }
  const extension = extname(name);
  if (isFolderAt(target) !== true && extension !== '' && target.endsWith(extension)) {
    const expected = `a folder, in which the file gets its name ${JSON.stringify(name)}, or a path that ends in ${SHARD_EXTENSION}`;
    throw argumentRangeError('target', expected, target);
  }
  requireLocalNames([name], source);
  const path = join(target, name);
  if (isFolderAt(target) !== true) return path;
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return path;
  const expected = 'a folder without a link of the name that the file gets, or the path of a file';
  throw argumentRangeError('target', expected, path);
}

async function toFile(
  source: SourceFiles,
  target: string,
  options: RunOrPlanOptions,
  repaired: RepairedFile[],
  scope: AbortController,
): Promise<DownloadResult | DownloadPlan> {
  const path = filePath(target, source);
  const planned = await planOneFile(source, path, options, scope.signal);
  // The configuration of plain weights has no place next to a file that may lie in any folder.
  const isOpenedByFolder = canonicalFileNames(undefined).includes(basename(path));
  const configMismatches = isOpenedByFolder ? planned.configMismatches : [];
  const plan = { ...planned, others: [], configMismatches };
  const [file] = receivedFiles(plan) as [DownloadItem];
  const repository = repositoryOf(source);
  const [folder, name] = [dirname(path), basename(path)];
  if (options.dryRun === true) {
    requireMakeableFolder(folder);
    requireReplaceableFile(path);
    const replaced = await replacedAt(file, path, scope.signal);
    const targetOptions = { ...options, repository };
    const foreign = await unrecordedAmong(replaced, folder, targetOptions, scope.signal);
    repaired.push(...(await knownRepairs(plan, () => path, options, scope.signal)));
    const old = { deleted: [], replaced, repaired, ...overwritePlan(foreign, options) };
    return await planOf(plan, path, () => path, old, scope.signal);
  }
  const received = await inCreatedFolder(folder, options.durable, () =>
    downloadToFile(file, path, { ...options, repository }, scopeOf([file], options, scope)),
  );
  if (repository !== undefined && (path !== target || (await isRecorded(folder, name)))) {
    await recordRepository(folder, repository, [name]);
  }
  return resultOf(plan, path, () => path, { ...received, repaired });
}

/** The plan for one file: the source's, or a new one with the tensors of all shards. */
async function planOneFile(
  source: SourceFiles,
  path: string,
  options: RunOptions,
  signal: AbortSignal,
): Promise<DownloadItems> {
  const placeOf = (): string => path;
  const joined = { ...options, maxShardSize: Number.POSITIVE_INFINITY };
  if (isOneFile(source)) {
    return await planFor(source, isWhole(options) ? options : joined, placeOf, signal);
  }
  if (isWhole(options)) {
    const found = requireModel(await findModel(source, placeOf, signal));
    const plan = await planWhole(source, found, placeOf, signal);
    const [model] = plan.models;
    if (model?.index === null && model.weights.length === 1) return plan;
  }
  return await planTensors(source, joined, placeOf, signal);
}

async function toFolder(
  source: SourceFiles,
  folder: string,
  options: RunOrPlanOptions,
  repaired: RepairedFile[],
  scope: AbortController,
): Promise<DownloadResult | DownloadPlan> {
  const placeOf: PlaceOf = ({ name }) => join(folder, name);
  const plan = await planFor(source, options, placeOf, scope.signal);
  requirePlannedNames(plan, source);
  repaired.push(...(await knownRepairs(plan, placeOf, options, scope.signal)));
  const targetOptions = { ...options, repository: repositoryOf(source) };
  if (options.dryRun === true) {
    const groups = groupsOf(plan, folder);
    const found = await findIn(groups, folder, options, scope.signal);
    const foreign = await foreignIn(groups, found.replaced, folder, targetOptions, scope.signal);
    const old = { ...found, repaired, ...overwritePlan(foreign, options) };
    return await planOf(plan, folder, placeOf, old, scope.signal);
  }
  const inTransfer = scopeOf(receivedFiles(plan), options, scope);
  const received = await downloadToFolder(plan, folder, targetOptions, inTransfer);
  return resultOf(plan, folder, placeOf, { ...received, repaired });
}

/** The repository of a source; undefined for sources elsewhere. */
function repositoryOf({ hub }: SourceFiles): Repository | undefined {
  if (hub === null) return undefined;
  const { cacheName: name } = hub.address.id;
  const { prefix, commit } = hub;
  return { name, prefix, commit, hasCommit: (other, signal) => hub.hasCommit(other, signal) };
}

function requirePlannedNames(plan: DownloadItems, { path }: SourceFiles): void {
  requireLocalNames(
    allFiles(plan).map(({ name }) => name),
    path,
  );
}

/** Whether files are copied unchanged. */
function isWhole(options: TensorsOptions): boolean {
  const { maxShardSize, isRewritten = false } = options;
  return selectsAll(options) && maxShardSize === undefined && !isRewritten;
}

function scopeOf(
  files: readonly DownloadItem[],
  { onProgress }: RunOptions,
  scope: AbortController,
): DownloadScope {
  const { signal } = scope;
  const transfer = new Transfer(lengthOf(files), { signal, onProgress });
  return { transfer, signal, abort: (reason) => scope.abort(reason) };
}

function lengthOf(files: readonly DownloadItem[]): number {
  return files.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** For a target that holds nothing else. */
const NOTHING_OLD: OldFiles = { deleted: [], replaced: [] };

/** What a plan does to files of the target. */
interface PlannedReplacement extends OldFiles, OverwritePlan, Pick<DownloadResult, 'repaired'> {}

/** The plan for these files. */
async function planOf(
  plan: DownloadItems,
  path: string,
  placeOf: PlaceOf,
  { deleted, replaced, repaired, needsOverwrite }: PlannedReplacement,
  signal: AbortSignal,
): Promise<DownloadPlan> {
  const { commit, skipped, conflicts, configMismatches, totalSize, report } = plan;
  const planned = async (file: DownloadItem, ends: AbortSignal): Promise<PlannedDownload> => {
    const { name, byteLength } = file;
    const tensors = await plan.tensorsIn(file, ends);
    return { name, path: placeOf(file), byteLength, tensors };
  };
  const files = await ofEach(allFiles(plan), QUESTIONS_AT_ONCE, planned, signal);
  const { overflowed, ...known } = report;
  const byteLength = lengthOf(allFiles(plan));
  const facts = { path, commit, index: indexOf(plan), byteLength, totalSize };
  const others = { skipped, conflicts, configMismatches, repaired };
  const needs = needsOverwrite === undefined ? {} : { needsOverwrite };
  return { ...facts, files, deleted, replaced, ...needs, ...others, ...known };
}

/** The name of the only index. */
function indexOf({ models }: DownloadItems): string | null {
  return models.length === 1 ? (models[0]?.index?.name ?? null) : null;
}

function resultOf(
  plan: DownloadItems,
  path: string,
  placeOf: PlaceOf,
  received: ReceivedBytes &
    Pick<DownloadResult, 'repaired'> &
    Partial<Pick<DownloadResult, 'deleted' | 'failedDeletions' | 'replaced'>>,
): DownloadResult {
  const files = allFiles(plan);
  const { commit, skipped, conflicts, configMismatches, totalSize, report } = plan;
  return {
    path,
    index: indexOf(plan),
    totalSize,
    files: files.map((file) => ({
      name: file.name,
      path: placeOf(file),
      byteLength: file.byteLength,
    })),
    commit,
    byteLength: lengthOf(files),
    deleted: [],
    failedDeletions: [],
    replaced: [],
    ...received,
    skipped,
    conflicts,
    configMismatches,
    ...report,
  };
}
