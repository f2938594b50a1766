/** Syncs folders, which makes a new, changed or removed name survive a loss of power. */

import { closeSync, fsyncSync, openSync } from 'node:fs';
import process from 'node:process';
import { fsyncAsync } from '../io/pool-calls.js';
import { aboutFile, hasCode } from '../io/system-errors.js';

/** Errors for folders that we may not read, or that the file system does not sync. */
const CANNOT_SYNC_FOLDER: readonly string[] = ['EACCES', 'EPERM', 'EINVAL', 'ENOTSUP'];

/** A descriptor for syncing; undefined where folders cannot be synced, such as on Windows. */
function openFolder(folder: Buffer, label: string): number | undefined {
  if (process.platform === 'win32') return undefined;
  try {
    return openSync(folder, 'r');
  } catch (error) {
    if (hasCode(error, CANNOT_SYNC_FOLDER)) return undefined;
    throw aboutFile(error, label);
  }
}

/** Syncs a folder where the system can. `label` names the file in messages. */
export async function syncFolder(folder: Buffer, label: string): Promise<void> {
  const fd = openFolder(folder, label);
  if (fd === undefined) return;
  try {
    await fsyncAsync(fd);
  } catch (error) {
    if (!hasCode(error, CANNOT_SYNC_FOLDER)) throw aboutFile(error, label);
  } finally {
    closeSync(fd);
  }
}

/** The same as `syncFolder` on this thread. */
export function syncFolderSync(folder: Buffer, label: string): void {
  const fd = openFolder(folder, label);
  if (fd === undefined) return;
  try {
    fsyncSync(fd);
  } catch (error) {
    if (!hasCode(error, CANNOT_SYNC_FOLDER)) throw aboutFile(error, label);
  } finally {
    closeSync(fd);
  }
}
