/** Syncs folders, so that new, changed and removed names survive a loss of power. */

import { openSync } from 'node:fs';
import { dirname, resolve, sep } from 'node:path';
import process from 'node:process';
import { retryHere } from '../../platform/io/dropped-files.js';
import { closeQuietly } from '../../platform/io/file-calls.js';
import { fsyncAsync } from '../../platform/io/pool-calls.js';
import { aboutFile, CANNOT_SYNC, hasCode } from '../../platform/io/system-errors.js';
import { foldersOf } from './inner-paths.js';

/** Errors of folders without read permission, and of file systems that do not sync folders. */
const CANNOT_SYNC_FOLDER: readonly string[] = ['EACCES', 'EPERM', ...CANNOT_SYNC];

/** Opens a folder for syncing; undefined where folders cannot be synced, such as on Windows. */
function openToSync(folder: Buffer, label: string): number | undefined {
  if (process.platform === 'win32') return undefined;
  try {
    return retryHere(() => openSync(folder, 'r'));
  } catch (error) {
    if (hasCode(error, CANNOT_SYNC_FOLDER)) return undefined;
    throw aboutFile(error, label);
  }
}

/** Syncs a folder where the system can. `label` names the file in messages. */
export async function syncFolder(folder: Buffer, label: string): Promise<void> {
  const fd = openToSync(folder, label);
  if (fd === undefined) return;
  try {
    await fsyncAsync(fd);
  } catch (error) {
    if (!hasCode(error, CANNOT_SYNC_FOLDER)) throw aboutFile(error, label);
  } finally {
    closeQuietly(fd);
  }
}

/** Syncs the folder and those between it and its files, by their names below it, with `/`; inner ones first. */
export async function syncFolders(folder: string, names: Iterable<string>): Promise<void> {
  const inner = new Set([...names].flatMap((name) => foldersOf(folder, name)));
  for (const path of [folder, ...inner].reverse()) await syncNamed(path);
}

/**
 * Syncs the names of new folders, from `folder` up to `made`. Without new folders, syncs the name of `folder`: a
 * process that crashed may have made it without syncing.
 */
export async function syncCreated(folder: string, made: string = folder): Promise<void> {
  const top = dirname(resolve(made));
  for (let above = dirname(resolve(folder)); ; above = dirname(above)) {
    await syncNamed(above);
    if (above === top) return;
  }
}

async function syncNamed(folder: string): Promise<void> {
  await syncFolder(Buffer.from(folder + sep), folder);
}
