/** Replaces one certain file, and never another that has taken its place. */

import { openSync, renameSync, statSync } from 'node:fs';
import process from 'node:process';
import { addon } from '../../platform/addon/addon.js';
import { retryHere } from '../../platform/io/dropped-files.js';
import {
  closeQuietly,
  identityOf,
  removeFile,
  removeQuietly,
  statsOf,
} from '../../platform/io/file-calls.js';
import { tryToLock } from './locks.js';

/** Throws unless the file at a path is the one to be replaced, unchanged. */
export type OldFileCheck = (path: Buffer) => void;

/**
 * Moves a temporary file to `target`, in place of the file that has just passed the check. Another process can
 * replace that file at the last moment. So, where the system can, both files exchange their names, and the check
 * looks at the file that came out. If that is a different file, it goes back: for an instant the target is the new
 * file, which is then deleted. Other systems only rename.
 *
 * `letGo` closes the caller's descriptors of the old file, because Windows cannot replace an open file.
 *
 * @throws errors of the check and of the system; the temporary file is then deleted
 */
export function replaceCheckedFile(
  temporary: Buffer,
  target: Buffer,
  check: OldFileCheck,
  letGo: () => void,
): void {
  let newFile: string;
  try {
    newFile = identityAt(temporary);
  } catch (error) {
    removeQuietly(temporary);
    throw error;
  }
  const lock = lockNew(temporary);
  try {
    if (tryToExchange(temporary, target)) {
      settle(temporary, target, check, newFile);
      return;
    }
  } finally {
    if (lock !== undefined) closeQuietly(lock);
  }
  renameChecked(temporary, target, check, letGo);
}

/**
 * Locks the new file until it is certain to stay; every edit takes that lock first. Otherwise an edit that began
 * before the check would be undone with the new file, and its backup would pass for the old file's.
 */
function lockNew(temporary: Buffer): number | undefined {
  let fd: number | undefined;
  try {
    fd = retryHere(() => openSync(temporary, 'r'));
    tryToLock(fd);
  } catch {
    // Without a lock, as on file systems that lack locks.
  }
  return fd;
}

/** After an exchange: removes the old file, or puts a different file back. */
function settle(temporary: Buffer, target: Buffer, check: OldFileCheck, newFile: string): void {
  try {
    check(temporary);
  } catch (reason) {
    exchangeBack(temporary, target, newFile);
    throw reason;
  }
  removeFile(temporary);
}

function renameChecked(
  temporary: Buffer,
  target: Buffer,
  check: OldFileCheck,
  letGo: () => void,
): void {
  try {
    // The exchange may have failed because the target is gone.
    check(target);
    if (process.platform === 'win32') letGo();
    renameSync(temporary, target);
  } catch (error) {
    removeQuietly(temporary);
    throw error;
  }
}

/**
 * Puts the file that came out back, in place of the new file. If the target was replaced again meanwhile, that newest
 * file goes back in turn.
 */
function exchangeBack(temporary: Buffer, target: Buffer, newFile: string): void {
  let expected = newFile;
  let found = identityAt(temporary);
  while (tryToExchange(temporary, target)) {
    const held = found;
    found = identityAt(temporary);
    if (found === expected) {
      removeFile(temporary);
      return;
    }
    expected = held;
  }
  renameSync(temporary, target);
}

function identityAt(path: Buffer): string {
  return identityOf(statSync(path, { bigint: true }));
}

/** Whether the path leads to the file or folder of the descriptor. */
export function isOpenedAt(path: string, fd: number): boolean {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found !== undefined && identityOf(found) === identityOf(statsOf({ fd, path }));
}

function tryToExchange(path: Buffer, other: Buffer): boolean {
  const native = addon();
  if (native === undefined) return false;
  try {
    native.exchangeFiles(path, other);
    return true;
  } catch {
    return false;
  }
}
