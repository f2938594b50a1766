/** Makes the target folder of a checkpoint if it is missing, and locks it for a save. */

import { constants, existsSync, openSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { argumentRangeError, requireBoolean } from '../../errors/arguments.js';
import { URL_PATTERN } from '../../file/hub/ids.js';
import { hasWeightsExtension, SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { retryHere } from '../../platform/io/dropped-files.js';
import { closeQuietly, systemRealpath } from '../../platform/io/file-calls.js';
import { requirePath } from '../../platform/io/paths.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { requireTransferOptions } from '../../work/transfer.js';
import {
  isFolderAt,
  makeFolder,
  removeCreated,
  removeEmpty,
  requireMakeableFolder,
} from '../replacement/create-directories.js';
import { isOpenedAt } from '../replacement/exchange.js';
import { syncCreated } from '../replacement/folder-sync.js';
import { makeInnerFolders } from '../replacement/inner-paths.js';
import {
  inTurn,
  MAX_LOCK_TRIES,
  requireLockTimeout,
  tryToLock,
  waitForLock,
} from '../replacement/locks.js';
import type { WriteCheckpointOptions, WriteOrPlanOptions } from './execute-plan.js';

/** Extensions of files that no folder is meant to have, besides those of weights. */
const FILE_EXTENSION =
  /\.(?:dduf|distcp|engine|gz|json|mlmodel|npy|pb|pickle|pkl|pt2|t7|tar|tgz|zip|zst)$/i;

/**
 * Throws a RangeError `ERR_OUT_OF_RANGE` for the name of a file where a folder is to be written, unless a folder of
 * that name exists: `model.gguf` would become a folder with a safetensors file in it. `name` is the argument's.
 */
export function requireFolderName(name: string, target: string): void {
  requireLocalTarget(name, target);
  if (target !== '' && isFolderAt(target) === true) return;
  const [extension = ''] = /\.[^.]*$/.exec(basename(target)) ?? [];
  const file = `a path that ends in ${SHARD_EXTENSION}`;
  const fail = (expected: string): never => {
    throw argumentRangeError(name, expected, target);
  };
  if (target === '' || extension === SHARD_EXTENSION) {
    fail('the path of a folder, in which the files get their names');
  }
  if (extension.toLowerCase() === SHARD_EXTENSION) fail(`${file} in lower case, or a folder`);
  if (hasWeightsExtension(basename(target)) || FILE_EXTENSION.test(extension)) {
    fail(`${file}, or a folder (${extension} files are not written)`);
  }
}

/** Throws a RangeError `ERR_OUT_OF_RANGE` for an address in place of a path: a folder `https:` would be created. */
export function requireLocalTarget(name: string, target: string): void {
  if (!URL_PATTERN.test(target) || !target.includes('://')) return;
  throw argumentRangeError(name, 'a local path: files are not uploaded', target);
}

/** Returns the path of a folder; rejects one that looks like a file name. */
function folderOf(target: string | URL): string {
  const folder = requirePath('the folder', target);
  requireFolderName('the folder', folder);
  return folder;
}

/** A folder locked against other saves until its descriptor is closed. */
interface LockedFolder {
  /** Undefined on systems that cannot open folders. */
  readonly fd: number | undefined;
  /** The topmost new folder. */
  readonly made: string | undefined;
}

/**
 * Runs work that writes a checkpoint into the folder, while no other save into it is under way in any process. Makes
 * the folder and its missing parents, and removes the new ones when the work fails. With `dryRun` it only runs the
 * work, which must not need the folder.
 *
 * @throws TypeError, RangeError for unusable options; SafetensorsError `SAFETENSORS_LOCKED`;
 *   `signal.reason`; errors of the system and of the work
 */
export async function inLockedFolder<Result>(
  target: string | URL,
  options: WriteOrPlanOptions,
  work: (folder: string) => Promise<Result>,
): Promise<Result> {
  const folder = folderOf(target);
  const { durable = true, dryRun = false, signal } = options;
  requireBoolean('durable', durable);
  requireBoolean('dryRun', dryRun);
  requireTransferOptions(options);
  requireLockTimeout(options);
  signal?.throwIfAborted();
  if (dryRun) {
    requireMakeableFolder(folder);
    return await work(folder);
  }
  // Synchronous, so that calls queue in order.
  const madeBefore = makeFolder(folder);
  return await inTurn(keyOf(folder), signal, async () => {
    const lock = await lockFolder(folder, options, madeBefore);
    try {
      return await inFolder(folder, lock.made, durable, () => work(folder));
    } finally {
      if (lock.fd !== undefined) closeQuietly(lock.fd);
    }
  });
}

/**
 * As above, of several folders: runs work that writes into subfolders of a locked folder, given by their names with a
 * slash at the end, while no other save is under way in one of them. Makes those that are missing, and removes new
 * ones when the work fails, with those that the work adds to `made`.
 *
 * @throws As `inLockedFolder`; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for a link in place of a folder
 */
export async function inLockedSubfolders<Result>(
  folder: string,
  names: Iterable<string>,
  options: WriteCheckpointOptions,
  work: (made: string[]) => Promise<Result>,
): Promise<Result> {
  const made: string[] = [];
  const below = [...new Set(names)].filter(Boolean).sort();
  // Always in the order of names, so that two calls do not wait for each other.
  const locked = async ([first, ...more]: readonly string[]): Promise<Result> =>
    first === undefined
      ? await work(made)
      : await inLockedFolder(join(folder, first), options, () => locked(more));
  try {
    for (const name of below) makeInnerFolders(folder, `${name}any`, made);
    return await locked(below);
  } catch (error) {
    for (const each of made.reverse()) removeEmpty(each);
    throw error;
  }
}

/**
 * Runs work that writes a file into a folder. Makes the folder and its missing parents, and removes the new ones when
 * the work fails.
 */
export async function inCreatedFolder<Result>(
  folder: string,
  durable: boolean,
  work: () => Promise<Result>,
): Promise<Result> {
  return await inFolder(folder, makeFolder(folder), durable, work);
}

/** As above, in an existing folder; `made` is the topmost new folder. */
async function inFolder<Result>(
  folder: string,
  made: string | undefined,
  durable: boolean,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    if (durable) await syncCreated(folder, made);
    return await work();
  } catch (error) {
    removeCreated(folder, made);
    throw error;
  }
}

/** Returns the folder's real path; a failed save of another process may have just removed the folder. */
function keyOf(folder: string): string {
  try {
    return systemRealpath()(folder);
  } catch {
    return resolve(folder);
  }
}

/** Locks the folder now at this path; another save may have removed the previous one meanwhile. */
async function lockFolder(
  folder: string,
  options: WriteOrPlanOptions,
  madeBefore: string | undefined,
): Promise<LockedFolder> {
  let made = madeBefore;
  for (let tries = 1; ; tries++) {
    let fd: number | undefined;
    try {
      made = makeFolder(folder) ?? made;
      fd = openFolder(folder);
      if (fd !== undefined && !tryToLock(fd, folder)) await waitForLock(fd, folder, options);
      const isThere = fd === undefined ? existsSync(folder) : isOpenedAt(folder, fd);
      if (isThere || tries === MAX_LOCK_TRIES) return { fd, made };
    } catch (error) {
      // Another save may hold the folder while this one waits.
      if ((error as NodeJS.ErrnoException | null)?.errno !== undefined) removeCreated(folder, made);
      if (fd !== undefined) closeQuietly(fd);
      throw error;
    }
    if (fd !== undefined) closeQuietly(fd);
  }
}

/** Undefined when the folder cannot be locked: missing, without read permission, or on Windows. */
function openFolder(folder: string): number | undefined {
  try {
    const flags = constants.O_RDONLY | (constants.O_DIRECTORY ?? 0);
    return retryHere(() => openSync(folder, flags));
  } catch (error) {
    if (hasCode(error, ['ENOENT', 'EACCES', 'EPERM', 'EISDIR'])) return undefined;
    throw error;
  }
}
