/** The folder that a checkpoint is written into: made if it is missing, and locked. */

import { closeSync, constants, existsSync, mkdirSync, openSync, statSync } from 'node:fs';
import { mkdir, rmdir } from 'node:fs/promises';
import { basename, dirname, resolve, sep } from 'node:path';
import { argumentRangeError, requireBoolean } from '../../errors/arguments.js';
import { isHubUri } from '../../hub/ids.js';
import { systemRealpath } from '../../io/file-calls.js';
import { pathText } from '../../io/paths.js';
import { hasCode } from '../../io/system-errors.js';
import { requireTransferOptions } from '../../io/transfer.js';
import { isAt } from '../../replacement/exchange.js';
import { syncFolder } from '../../replacement/folder-sync.js';
import { inTurn, requireLockTimeout, tryToLock, waitForLock } from '../../replacement/locks.js';
import { SHARD_EXTENSION } from '../../shards/shard-paths.js';
import type { WriteCheckpointOptions } from './execute-plan.js';

/** More than there are saves that wait for one folder and fail. Then it is written without a lock. */
const MAX_TRIES = 1000;

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
 * process. Makes the folder, and those above it; when the work fails, removes those that it made.
 *
 * @throws TypeError, RangeError for unusable options; SafetensorsError `SAFETENSORS_LOCKED`;
 *   `signal.reason`; errors of the system and of the work
 */
export async function inLockedFolder<Result>(
  target: string | URL,
  options: WriteCheckpointOptions,
  work: (folder: string) => Promise<Result>,
): Promise<Result> {
  const folder = folderOf(target);
  const { durable = true, signal } = options;
  requireBoolean('durable', durable);
  requireTransferOptions(options);
  requireLockTimeout(options);
  signal?.throwIfAborted();
  // Synchronous, so calls queue up in their order.
  const madeBefore = mkdirSync(folder, { recursive: true });
  return await inTurn(keyOf(folder), signal, async () => {
    const lock = await lockFolder(folder, options);
    const made = madeBefore ?? lock.made;
    try {
      return await inFolder(folder, made, durable, () => work(folder));
    } finally {
      if (lock.fd !== undefined) closeSync(lock.fd);
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
  const made = await mkdir(folder, { recursive: true });
  return await inFolder(folder, made, durable, work);
}

/** The same in a folder that is there; `made` is the topmost of those that were made for it. */
async function inFolder<Result>(
  folder: string,
  made: string | undefined,
  durable: boolean,
  work: () => Promise<Result>,
): Promise<Result> {
  try {
    if (durable && made !== undefined) await syncAbove(made);
    return await work();
  } catch (error) {
    if (made !== undefined) await removeMade(folder, made);
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

async function syncAbove(folder: string): Promise<void> {
  const above = dirname(folder);
  await syncFolder(Buffer.from(above + sep), above);
}

/** Locks the folder that has this path then: another save may have removed the one that was there. */
async function lockFolder(folder: string, options: WriteCheckpointOptions): Promise<LockedFolder> {
  for (let tries = 1; ; tries++) {
    const made = await mkdir(folder, { recursive: true });
    const fd = openFolder(folder);
    try {
      if (fd !== undefined && !tryToLock(fd)) await waitForLock(fd, folder, options);
      const isThere = fd === undefined ? existsSync(folder) : isAt(folder, fd);
      if (isThere || tries === MAX_TRIES) return { fd, made };
    } catch (error) {
      if (fd !== undefined) closeSync(fd);
      throw error;
    }
    if (fd !== undefined) closeSync(fd);
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

async function removeMade(folder: string, made: string): Promise<void> {
  const top = resolve(made);
  for (let each = resolve(folder); each.startsWith(top); each = dirname(each)) {
    await rmdir(each).catch(() => undefined);
  }
}
