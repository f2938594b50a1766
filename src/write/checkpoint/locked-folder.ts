/** The folder that a checkpoint is written into: made if it is missing, and locked. */

import { constants, existsSync, openSync, statSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { argumentRangeError, requireBoolean } from '../../errors/arguments.js';
import { isHubUri } from '../../file/hub/ids.js';
import { SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { closeQuietly, systemRealpath } from '../../platform/io/file-calls.js';
import { pathText } from '../../platform/io/paths.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { requireTransferOptions } from '../../platform/transfer/transfer.js';
import { isOpenedAt } from '../replacement/exchange.js';
import { syncMade } from '../replacement/folder-sync.js';
import {
  inTurn,
  MAX_LOCK_TRIES,
  requireLockTimeout,
  tryToLock,
  waitForLock,
} from '../replacement/locks.js';
import { makeFolder, removeMade, requireMakeableFolder } from '../replacement/made-folders.js';
import type { WriteOrPlanOptions } from './execute-plan.js';

/** Refuses a path that looks like a file's, unless there is a folder of that name. */
function folderOf(target: string | URL): string {
  const folder = pathText('the folder', target);
  const isFolder = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
  if (
    folder === '' ||
    isHubUri(folder) ||
    (basename(folder).endsWith(SHARD_EXTENSION) && !isFolder)
  ) {
    const expected = 'the path of a folder, in which the files get names of their own';
    throw argumentRangeError('the folder', expected, folder);
  }
  return folder;
}

/** A folder that nobody else saves into until its descriptor is closed. */
interface LockedFolder {
  /** Undefined on systems that open no folders. */
  readonly fd: number | undefined;
  /** The topmost folder that was made. */
  readonly made: string | undefined;
}

/**
 * Does work that writes a checkpoint into the folder, when no other save into it is under way, in any
 * process. Makes the folder, and those above it; when the work fails, removes those that it made. With `dryRun`
 * it only does the work, which must not need the folder.
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
  // Synchronous, so calls queue up in their order.
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
 * Does work that writes a file into a folder. Makes the folder, and those above it; when the work fails, removes
 * those that it made.
 */
export async function inMadeFolder<Result>(
  folder: string,
  durable: boolean,
  work: () => Promise<Result>,
): Promise<Result> {
  return await inFolder(folder, makeFolder(folder), durable, work);
}

/** The same in a folder that is there; `made` is the topmost of those that were made for it. */
async function inFolder<Result>(
  folder: string,
  made: string | undefined,
  durable: boolean,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    if (durable) await syncMade(folder, made);
    return await work();
  } catch (error) {
    removeMade(folder, made);
    throw error;
  }
}

/** The folder's path without links. Another save, which has failed, may have just removed it. */
function keyOf(folder: string): string {
  try {
    return systemRealpath()(folder);
  } catch {
    return resolve(folder);
  }
}

/** Locks the folder that has this path then: another save may have removed the one that was there. */
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
      // Another save may have the folder while this one only waits for it.
      if ((error as NodeJS.ErrnoException | null)?.errno !== undefined) removeMade(folder, made);
      if (fd !== undefined) closeQuietly(fd);
      throw error;
    }
    if (fd !== undefined) closeQuietly(fd);
  }
}

/** Undefined when it cannot be locked: it is gone, we may not read it, or this is Windows. */
function openFolder(folder: string): number | undefined {
  try {
    return openSync(folder, constants.O_RDONLY | (constants.O_DIRECTORY ?? 0));
  } catch (error) {
    if (hasCode(error, ['ENOENT', 'EACCES', 'EPERM', 'EISDIR'])) return undefined;
    throw error;
  }
}
