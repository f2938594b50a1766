/** Downloads the files of a plan into a folder; each model gets its place in one step. */

import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readFileHeader } from '../../file/read-header.js';
import { encodeIndex } from '../../file/shards/checkpoint-index-writer.js';
import { namingOf, singleNameOf } from '../../file/shards/file-choice.js';
import { FilenamePattern } from '../../file/shards/file-names.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { TemporaryNames } from '../../platform/io/temporary-names.js';
import { runAsync, runSync } from '../../work/work.js';
import {
  FolderReplacement,
  NO_MODEL,
  type StaleFiles,
} from '../../write/checkpoint/folder-replacement.js';
import { inLockedSubfolders } from '../../write/checkpoint/locked-folder.js';
import { oldFilesOf, staleAmong } from '../../write/checkpoint/old-files.js';
import { requireReplacedNotInUse } from '../../write/replacement/in-use.js';
import { innerPath, makeInnerFolders } from '../../write/replacement/inner-paths.js';
import { waitForLock } from '../../write/replacement/locks.js';
import { type ReplacedFile, requireOverwrite } from '../../write/replacement/replaced-files.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import {
  allFiles,
  type DownloadItem,
  type DownloadItems,
  type DownloadScope,
  type IndexItem,
  type ModelItems,
  type ReceivedFile,
} from './download-item.js';
import { missingByteLength, requireFreeSpace } from './free-space.js';
import {
  deleteOtherPartials,
  forget,
  isAlreadyThere,
  note,
  partialNameOf,
} from './partial-files.js';
import { type ReceivedBytes, receiveAll } from './receive-all.js';
import { recordRepository, unrecordedAmong } from './repository-record.js';
import type { TargetOptions } from './target-options.js';

/** Received and deleted files. */
interface DownloadedFolder extends ReceivedBytes, StaleFiles {
  /** Files that existed before and were replaced or deleted. */
  readonly replaced: readonly ReplacedFile[];
}

/** Files of one folder that get their places together: those of a model, and files next to it. */
export interface FileGroup {
  /** The path of the folder. */
  readonly folder: string;
  /** The folder below the target's, with a slash at its end; empty for the target's own. */
  readonly prefix: string;
  /** Of the names of weights and index: finds files of an earlier model. */
  readonly pattern: FilenamePattern;
  readonly weights: readonly DownloadItem[];
  readonly index: IndexItem | null;
  readonly obsolete: readonly string[];
  /** Whether files of an earlier model stay. */
  readonly isAddition: boolean;
  /** Files next to the model, and those of folders without a model for the target's own. */
  readonly others: DownloadItem[];
}

/** Path of a file below the folder of its group. */
function nameIn({ prefix }: FileGroup, { name }: Pick<DownloadItem, 'name'>): string {
  return name.slice(prefix.length);
}

/** Groups the files of a plan by models; that of the target's own folder is the last. */
export function groupsOf(
  { models, others, isAddition }: DownloadItems,
  folder: string,
): readonly FileGroup[] {
  const groups = models.map((model): FileGroup => {
    const path = join(folder, model.prefix);
    return { ...model, folder: path, pattern: patternOf(model), isAddition, others: [] };
  });
  const byPrefix = new Map(groups.map((group) => [group.prefix, group]));
  let own = byPrefix.get('');
  for (const file of others) {
    const prefix = file.name.slice(0, file.name.lastIndexOf('/') + 1);
    let group = byPrefix.get(prefix) ?? own;
    if (group === undefined) {
      const none = { weights: [], index: null, obsolete: [], isAddition: true };
      group = own = { ...none, folder, prefix: '', pattern: NO_MODEL, others: [] };
      groups.push(group);
    }
    group.others.push(file);
  }
  // The file that makes a pipeline of its folders comes last.
  return groups.sort((a, b) => b.prefix.length - a.prefix.length || (a.prefix < b.prefix ? -1 : 1));
}

/** Files of a folder before a download: those of its plan that are right, and what happens to others. */
interface FoundFiles {
  /** Files that are there with the right bytes. */
  readonly present: ReadonlySet<DownloadItem>;
  /** Names of files of earlier models that would be deleted, below the target's folder. */
  readonly deleted: readonly string[];
  /** Existing files that would be replaced or deleted, by their names below the target's folder. */
  readonly replaced: readonly ReplacedFile[];
}

/**
 * Compares the files of a folder, which need not exist, with those of a plan. Changes nothing.
 *
 * @throws As `downloadToFolder` for files that must not be replaced
 */
export async function findIn(
  groups: readonly FileGroup[],
  folder: string,
  { repair = false }: Pick<TargetOptions, 'repair'>,
  signal: AbortSignal,
): Promise<FoundFiles> {
  const present = new Set<DownloadItem>();
  for (const { weights, others } of groups) {
    for (const file of [...weights, ...others]) {
      const path = innerPath(folder, file.name);
      // A download replaces links. A copy may have right files elsewhere.
      const isCandidate = repair || !(await isLink(path));
      if (isCandidate && (await isAlreadyThere(path, file, signal))) present.add(file);
    }
  }
  return { present, ...(await oldIn(groups, present)) };
}

/** Finds the files of the folders that a plan would delete or replace, other than the `present` ones. */
async function oldIn(
  groups: readonly FileGroup[],
  present: ReadonlySet<DownloadItem>,
): Promise<Omit<FoundFiles, 'present'>> {
  const deleted: string[] = [];
  const replaced: ReplacedFile[] = [];
  for (const group of groups) {
    const { prefix, pattern, weights, index, others, obsolete, isAddition } = group;
    const kept = [...weights, ...others].filter((file) => present.has(file));
    const unchanged = new Set(kept.map((file) => nameIn(group, file)));
    if (index !== null && (await hasIndex(group, index))) unchanged.add(nameIn(group, index));
    const files = [...weights, ...others, ...(index === null ? [] : [index])];
    const names = files.map((file) => nameIn(group, file));
    const old = oldFilesOf(group.folder, pattern, names, { obsolete, unchanged });
    const isReplaced = ({ name }: ReplacedFile): boolean => !isAddition || names.includes(name);
    if (!isAddition) deleted.push(...old.deleted.map((name) => prefix + name));
    for (const file of old.replaced.filter(isReplaced)) {
      replaced.push({ ...file, name: prefix + file.name });
    }
  }
  return { deleted, replaced };
}

/** The replaced files that are not of the repository: the download stops at weights among them. */
export async function foreignIn(
  groups: readonly FileGroup[],
  replaced: readonly ReplacedFile[],
  folder: string,
  options: Pick<TargetOptions, 'repository' | 'repair'>,
  signal: AbortSignal,
): Promise<ReplacedFile[]> {
  const { repository } = options;
  // Without any file of the repository, the target is no copy of it.
  const repair = options.repair === true && groups.every(({ isAddition }) => isAddition);
  return await unrecordedAmong(replaced, folder, { repository, repair }, signal);
}

/**
 * Downloads into a folder that is locked. Right files stay; if all are right, touches nothing. Follows no links in
 * the folder: replaces a link in place of a file, refuses one in place of a folder. Every model has its old files
 * until all files of the plan are complete.
 *
 * @throws As `saveCheckpoint`; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for such a link
 */
export async function downloadToFolder(
  plan: DownloadItems,
  folder: string,
  options: TargetOptions,
  scope: DownloadScope,
): Promise<DownloadedFolder> {
  // Check this before creating folders.
  for (const { name } of allFiles(plan)) innerPath(folder, name);
  const groups = groupsOf(plan, folder);
  const prefixes = groups.map(({ prefix }) => prefix);
  return await inLockedSubfolders(folder, prefixes, { ...options, signal: scope.signal }, (made) =>
    fillFolder(groups, folder, options, scope, made),
  );
}

/** Downloads into locked folders; adds created subfolders to `made`. */
async function fillFolder(
  groups: readonly FileGroup[],
  folder: string,
  options: TargetOptions,
  scope: DownloadScope,
  made: string[],
): Promise<DownloadedFolder> {
  const { signal, transfer } = scope;
  const { repository } = options;
  const found = await findIn(groups, folder, options, signal);
  const { present, replaced } = found;
  const foreignAmong = (files: readonly ReplacedFile[]): Promise<ReplacedFile[]> =>
    foreignIn(groups, files, folder, options, signal);
  const requireAllowed = async (files: readonly ReplacedFile[]): Promise<void> => {
    requireOverwrite(await foreignAmong(files), folder, options);
  };
  await requireAllowed(replaced);
  requireReplacedNotInUse(folder, found);
  const missing = new Map<DownloadItem, FileGroup>();
  const unfinished: FileGroup[] = [];
  let reusedBytes = 0;
  const recordAll = async (): Promise<void> => {
    if (repository === undefined) return;
    const files = groups.flatMap(({ weights, index, others }) => [
      ...weights,
      ...others,
      ...(index === null ? [] : [index]),
    ]);
    const names = files.map(({ name }) => name);
    await recordRepository(folder, repository, names);
  };
  for (const group of groups) {
    const before = missing.size;
    for (const file of [...group.weights, ...group.others]) {
      if (present.has(file)) {
        reusedBytes += file.byteLength;
        transfer.advance(file.byteLength);
      } else {
        missing.set(file, group);
        makeInnerFolders(folder, file.name, made);
        await deleteOtherPartials(group.folder, memberName(group, file), file);
      }
    }
    if (missing.size > before || !(await isFinished(group))) unfinished.push(group);
  }
  if (unfinished.length === 0) {
    transfer.finish();
    await recordAll();
    return { downloadedBytes: 0, reusedBytes, deleted: [], failedDeletions: [], replaced: [] };
  }
  await requireFreeSpace(folder, bytesToReceive(missing), folder);
  const replacements = new Map<FileGroup, ModelReplacement>();
  try {
    for (const group of unfinished) {
      replacements.set(group, await ModelReplacement.open(group, missing, options));
    }
    const received = await receiveAll([...missing.keys()], scope, async (file) => {
      const group = missing.get(file) as FileGroup;
      return await (replacements.get(group) as ModelReplacement).receive(file, options, scope);
    });
    signal.throwIfAborted();
    // Other programs may have put files there meanwhile, under the names of old ones too, and even the right files.
    const { replaced: now } = await oldIn(groups, present);
    if ((await foreignAmong(now)).length > 0) {
      await requireAllowed((await findIn(groups, folder, options, signal)).replaced);
    }
    const stale: StaleFiles = { deleted: [], failedDeletions: [] };
    for (const [group, replacement] of replacements) {
      // The folder may have become a link meanwhile.
      innerPath(folder, `${group.prefix}any`);
      const { deleted, failedDeletions } = await replacement.commit();
      stale.deleted.push(...deleted);
      stale.failedDeletions.push(...failedDeletions);
    }
    received.reusedBytes += reusedBytes;
    await recordAll();
    const gone = replaced.filter(({ name }) => !stale.failedDeletions.includes(name));
    return { ...received, ...stale, replaced: gone };
  } finally {
    for (const replacement of replacements.values()) await replacement.discard();
  }
}

/** The replacement of the files of one group. */
class ModelReplacement {
  readonly #group: FileGroup;
  readonly #replacement: FolderReplacement;
  readonly #weights: ReadonlySet<DownloadItem>;
  /** For a model without index: the file of each tensor. */
  readonly #shardOf = new Map<string, string>();

  private constructor(group: FileGroup, replacement: FolderReplacement) {
    this.#group = group;
    this.#replacement = replacement;
    this.#weights = new Set(group.weights);
  }

  static async open(
    group: FileGroup,
    missing: ReadonlyMap<DownloadItem, FileGroup>,
    { durable }: TargetOptions,
  ): Promise<ModelReplacement> {
    const { folder, pattern } = group;
    const files = [
      ...group.weights,
      ...group.others,
      ...(group.index === null ? [] : [group.index]),
    ];
    const names = files.map((file) => nameIn(group, file));
    const replacement = await FolderReplacement.open(folder, pattern, names, { durable });
    for (const file of group.weights) {
      if (!missing.has(file)) replacement.keep(nameIn(group, file));
    }
    if (group.isAddition) for (const name of await readdir(folder)) replacement.keep(name);
    return new ModelReplacement(group, replacement);
  }

  /** Receives a file into a temporary one. */
  async receive(
    file: DownloadItem,
    { lockTimeout }: TargetOptions,
    scope: DownloadScope,
  ): Promise<Omit<ReceivedFile, 'hash'>> {
    const { signal } = scope;
    const { folder, index } = this.#group;
    const name = nameIn(this.#group, file);
    const path = join(folder, name);
    const target = await this.#create(name, file);
    // Without locks on folders another download may use this very folder.
    await waitForLock(target.fd, path, { lockTimeout, signal });
    const { hash, ...bytes } = await file.receive(target, path, scope);
    if (index === null && this.#weights.has(file)) {
      for (const tensor of tensorNamesOf(target, file)) this.#shardOf.set(tensor, name);
    }
    await note(innerPath(folder, name), file, hash);
    await target.finish(signal);
    return bytes;
  }

  async #create(name: string, file: DownloadItem): Promise<Replacement> {
    const { byteLength } = file;
    const keptName = partialNameOf(memberName(this.#group, file), file);
    return this.#weights.has(file)
      ? await this.#replacement.create(name, byteLength, keptName)
      : await this.#replacement.createOther(name, byteLength, keptName);
  }

  /** Puts the files into their places; returns the stale ones by their paths below the target's folder. */
  async commit(): Promise<StaleFiles> {
    const { index, obsolete, folder, prefix } = this.#group;
    const indexes = {
      index: index?.bytes ?? null,
      interimIndex: (nameOf: (name: string) => string) =>
        index?.interimIndex(nameOf) ?? encodeIndex(new Map(), renamed(this.#shardOf, nameOf)),
    };
    const { deleted, failedDeletions } = await this.#replacement.commit(indexes, obsolete);
    for (const name of deleted) await forget(join(folder, name));
    const below = (name: string): string => prefix + name;
    return { deleted: deleted.map(below), failedDeletions: failedDeletions.map(below) };
  }

  async discard(): Promise<void> {
    await this.#replacement.discard();
  }
}

/**
 * Salt for the names of the folder's partial files. A download of the same file by itself uses another salt: each
 * moves its own partial file into place, so neither has to wait.
 */
function memberName(group: FileGroup, file: DownloadItem): string {
  return `./${nameIn(group, file)}`;
}

/** Names of the tensors in the only received file, which has no index. */
function tensorNamesOf({ fd, path }: Replacement, { byteLength }: DownloadItem): string[] {
  const { header } = runSync(readFileHeader({ fd, path, byteLength }));
  return header.names();
}

function* renamed(
  shardOf: ReadonlyMap<string, string>,
  nameOf: (name: string) => string,
): Generator<[string, string], void, void> {
  for (const [name, shard] of shardOf) yield [name, nameOf(shard)];
}

/** Whether the name of an index gives the names of the files that it replaces. */
export function hasPattern(model: ModelItems): boolean {
  try {
    return patternOf(model).indexFilename === model.index?.name.slice(model.prefix.length);
  } catch {
    return false;
  }
}

/** Pattern of the names of a model's weights and index. */
function patternOf({ prefix, index, weights }: ModelItems): FilenamePattern {
  const [first] = weights as readonly [DownloadItem];
  // Shards without an index have the pattern of the single file.
  const path = index?.name ?? (weights.length > 1 ? singleNameOf(first.name) : first.name);
  const name = path.slice(prefix.length);
  const { filenamePattern, variant } = namingOf(name);
  return new FilenamePattern(filenamePattern, variant);
}

/**
 * Whether the folder already has the model, given that all files are there: it has the index, and no files of an
 * earlier model, which a killed download may leave.
 */
async function isFinished(group: FileGroup): Promise<boolean> {
  const { folder, pattern, weights, index, obsolete, isAddition } = group;
  const names = await readdir(folder);
  const temporary = new TemporaryNames(pattern.text);
  const planned = [...weights, ...(index === null ? [] : [index])].map((file) =>
    nameIn(group, file),
  );
  const kept = new Set(isAddition ? names.filter((name) => pattern.owns(name)) : planned);
  const { stale } = staleAmong({ folder, names, pattern, temporary }, kept);
  // A killed download leaves its record last.
  const gone = [...stale, ...obsolete, temporary.record];
  if (gone.some((name) => names.includes(name))) return false;
  return index === null || (await hasIndex(group, index));
}

/** Whether the folder has the index of a group, byte for byte. */
async function hasIndex(group: FileGroup, index: IndexItem): Promise<boolean> {
  const path = join(group.folder, nameIn(group, index));
  const stats = await lstat(path).catch((error: unknown) => {
    if (hasCode(error, ['ENOENT', 'ENOTDIR'])) return undefined;
    throw error;
  });
  if (stats?.isFile() !== true || stats.size !== index.byteLength) return false;
  return Buffer.from(index.bytes).equals(await runAsync(readSmallFile(path), undefined));
}

/** Whether a link is at the path: the download replaces it. */
async function isLink(path: string): Promise<boolean> {
  try {
    return (await lstat(path)).isSymbolicLink();
  } catch (error) {
    if (hasCode(error, ['ENOENT', 'ENOTDIR'])) return false;
    throw error;
  }
}

/** Bytes that the disk must still take. */
function bytesToReceive(files: ReadonlyMap<DownloadItem, FileGroup>): number {
  let sum = 0;
  for (const [file, group] of files) {
    const partial = partialNameOf(memberName(group, file), file);
    sum += missingByteLength(file.byteLength, partial && join(group.folder, partial));
  }
  return sum;
}
