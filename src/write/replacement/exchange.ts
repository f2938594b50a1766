/** Puts a file in the place of one certain file, and of no other. */

import { type BigIntStats, openSync, renameSync, statSync } from 'node:fs';
import process from 'node:process';
import { addon } from '../../platform/addon/addon.js';
import { closeQuietly, removeFile, removeQuietly, statsOf } from '../../platform/io/file-calls.js';
import { tryToLock } from './locks.js';

/** Throws when the file at a path is not the one that may be replaced, as it was. */
export type OldFileCheck = (path: Buffer) => void;

/**
 * Moves a temporary file to `target`, in place of the file that has just passed the check. Another
 * process can replace that file at the last moment. So both files exchange their names where the system
 * can do that, and the check looks at the file that came out. When it is another one, it goes back: for
 * an instant the target has the new file, which is then gone. Elsewhere there is only a rename.
 *
 * `letGo` closes what the caller has open of the old file. Windows, which replaces no open file, needs that
 * before the rename.
 *
 * @throws what the check throws, and errors of the system; the temporary file is gone then
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
 * Locks the new file until it is certain that it stays: whoever edits files locks them first. An edit that began
 * before the check would be undone with the new file, and its backup would be taken for that of the old file.
 */
function lockNew(temporary: Buffer): number | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(temporary, 'r');
    tryToLock(fd);
  } catch {
    // Without a lock it is as on file systems that have none.
  }
  return fd;
}

/** After an exchange: removes the old file, or puts it back if it is another one. */
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
 * Puts what came out back, in place of the new file. When another file was there, that one is newer
 * still: it goes back in turn.
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

/** What tells a file from all others. */
export function identityOf({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
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
