/** Downloads the files of a plan into a folder and makes them its checkpoint in one step. */

import { lstat, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { readFileHeader } from '../../file/read-header.js';
import { encodeIndex } from '../../file/shards/checkpoint-index-writer.js';
import { FilenamePattern } from '../../file/shards/file-names.js';
import { SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { runAsync, runSync } from '../../platform/io/steps.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { TemporaryNames } from '../../platform/io/temporary-names.js';
import { FolderReplacement, type StaleFiles } from '../../write/checkpoint/folder-replacement.js';
import { innerPath, makeInnerFolders } from '../../write/replacement/inner-paths.js';
import { waitForLock } from '../../write/replacement/locks.js';
import { removeEmpty } from '../../write/replacement/made-folders.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import { missingByteLength, requireFreeSpace } from './free-space.js';
import {
  deleteOtherPartials,
  forget,
  isAlreadyThere,
  note,
  partialNameOf,
} from './partial-files.js';
import { type ReceivedBytes, receiveAll } from './receive-all.js';
import type { TargetOptions } from './target-options.js';
import type { DownloadScope, WantedFile, WantedFiles } from './wanted-file.js';

/** The name of an index, or of the only file: its stem, and the variant that an index may have. */
const INDEX_OR_FILE = /^(.*)\.safetensors(?:\.index(?:\.([^.]+))?\.json)?$/;

/** Received and deleted files. */
export interface DownloadedFolder extends ReceivedBytes, StaleFiles {}

/**
 * Downloads into a folder that is locked. Right files stay; if all are right, touches nothing. Follows no links in
 * the folder: replaces a link in place of a file, refuses one in place of a folder. The folder has its old checkpoint
 * until all files of the new one are complete.
 *
 * @throws As `saveCheckpoint`; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for such a link
 */
export async function downloadToFolder(
  plan: WantedFiles,
  folder: string,
  options: TargetOptions,
  scope: DownloadScope,
): Promise<DownloadedFolder> {
  const made: string[] = [];
  try {
    return await fillFolder(plan, folder, options, scope, made);
  } catch (error) {
    for (const each of made.reverse()) removeEmpty(each);
    throw error;
  }
}

/** Downloads into a locked folder; adds created subfolders to `made`. */
async function fillFolder(
  plan: WantedFiles,
  folder: string,
  { durable, lockTimeout }: TargetOptions,
  scope: DownloadScope,
  made: string[],
): Promise<DownloadedFolder> {
  const { weights, others, index, obsolete } = plan;
  const { signal, transfer } = scope;
  const files = [...weights, ...others];
  const missing: WantedFile[] = [];
  let presentByteLength = 0;
  // Check this before creating folders.
  for (const { name } of files) innerPath(folder, name);
  for (const file of files) {
    const path = innerPath(folder, file.name);
    if (!(await isLink(path)) && (await isAlreadyThere(path, file, signal))) {
      presentByteLength += file.byteLength;
      transfer.advance(file.byteLength);
    } else {
      missing.push(file);
      makeInnerFolders(folder, file.name, made);
      await deleteOtherPartials(folder, memberName(file), file);
    }
  }
  const pattern = patternOf(plan);
  if (missing.length === 0 && (await isFinished(folder, pattern, plan))) {
    transfer.finish();
    return { receivedByteLength: 0, presentByteLength, deleted: [], undeleted: [] };
  }
  await requireFreeSpace(folder, bytesToReceive(folder, missing), folder);
  const names = [...files, ...(index === null ? [] : [index])].map(({ name }) => name);
  const replacement = await FolderReplacement.open(folder, pattern, names, { durable });
  const shardOf = new Map<string, string>();
  try {
    for (const file of weights) if (!missing.includes(file)) replacement.keep(file.name);
    const received = await receiveAll(missing, scope, async (file) => {
      const path = join(folder, file.name);
      const target = await createIn(replacement, file, !weights.includes(file));
      // Without locks on folders another download may use this very folder.
      await waitForLock(target.fd, path, { lockTimeout, signal });
      const { hash, ...bytes } = await file.receive(target, path, scope);
      if (index === null && weights.includes(file)) {
        for (const name of tensorNamesOf(target, file)) shardOf.set(name, file.name);
      }
      await note(innerPath(folder, file.name), file, hash);
      await target.finish(signal);
      return bytes;
    });
    signal.throwIfAborted();
    const indexes = {
      index: index?.bytes ?? null,
      interimIndex: (nameOf: (name: string) => string) =>
        index?.interimIndex(nameOf) ?? encodeIndex(new Map(), renamed(shardOf, nameOf)),
    };
    const stale = await replacement.commit(indexes, obsolete);
    for (const name of stale.deleted) await forget(join(folder, name));
    received.presentByteLength += presentByteLength;
    return { ...received, ...stale };
  } finally {
    await replacement.discard();
  }
}

/**
 * Salt for the names of the folder's partial files. A download of the same file by itself uses another salt: each
 * moves its own partial file into place, so neither has to wait.
 */
function memberName({ name }: WantedFile): string {
  return `./${name}`;
}

async function createIn(
  replacement: FolderReplacement,
  file: WantedFile,
  isOther: boolean,
): Promise<Replacement> {
  const { name, byteLength } = file;
  const keptName = partialNameOf(memberName(file), file);
  return isOther
    ? await replacement.createOther(name, byteLength, keptName)
    : await replacement.create(name, byteLength, keptName);
}

/** Names of the tensors in the only received file, which has no index. */
function tensorNamesOf({ fd, path }: Replacement, { byteLength }: WantedFile): string[] {
  const { header } = runSync(readFileHeader({ fd, path, byteLength, mtimeNs: 0n }));
  return header.names();
}

function* renamed(
  shardOf: ReadonlyMap<string, string>,
  nameOf: (name: string) => string,
): Generator<[string, string], void, void> {
  for (const [name, shard] of shardOf) yield [name, nameOf(shard)];
}

/** Pattern of the names of weights and index: finds files of an earlier checkpoint. */
export function patternOf({ index, weights }: WantedFiles): FilenamePattern {
  const name = index?.name ?? (weights[0] as WantedFile).name;
  const [, stem = '', variant] = INDEX_OR_FILE.exec(name) ?? [];
  return new FilenamePattern(`${stem}{suffix}${SHARD_EXTENSION}`, variant);
}

/**
 * Whether the folder already is the plan's checkpoint, given that all files are there: it has the index, and no files
 * of an earlier checkpoint, which a killed download may leave.
 */
async function isFinished(
  folder: string,
  pattern: FilenamePattern,
  { weights, index, obsolete }: WantedFiles,
): Promise<boolean> {
  const names = await readdir(folder);
  const temporaryNames = new TemporaryNames(pattern.text);
  const planned = new Set([...weights, ...(index === null ? [] : [index])].map(({ name }) => name));
  const isStale = (name: string): boolean =>
    (pattern.owns(name) && !planned.has(name)) ||
    temporaryNames.isLeftOver(name) ||
    obsolete.includes(name);
  if (names.some(isStale)) return false;
  if (index === null) return true;
  if (!names.includes(index.name)) return false;
  const path = join(folder, index.name);
  const stats = await lstat(path);
  if (!stats.isFile() || stats.size !== index.byteLength) return false;
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
function bytesToReceive(folder: string, files: readonly WantedFile[]): number {
  return files.reduce((sum, file) => {
    const partial = partialNameOf(memberName(file), file);
    return sum + missingByteLength(file.byteLength, partial && join(folder, partial));
  }, 0);
}
