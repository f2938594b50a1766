/** Folders that are made for files, and removed again when these do not come. */

import { existsSync, mkdirSync, rmdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { hasCode, systemError } from '../../platform/io/system-errors.js';

/**
 * Makes the folder, and those above it; returns the topmost that it made. When it fails, it has made none. Node's
 * own way leaves those that it made, and says `ENOENT` for most errors.
 */
export function makeFolder(folder: string): string | undefined {
  const missing: string[] = [];
  for (let each = resolve(folder); !existsSync(each) && dirname(each) !== each; ) {
    missing.unshift(each);
    each = dirname(each);
  }
  let made: string | undefined;
  try {
    for (const each of missing) if (madeNow(each)) made ??= each;
    // What is there must be a folder, and another save may have just removed one.
    const madeAgain = mkdirSync(folder, { recursive: true });
    return made ?? madeAgain;
  } catch (error) {
    removeMade(folder, made);
    throw error;
  }
}

/** Makes one folder; false when somebody else has just made it, or removed the one above. */
function madeNow(folder: string): boolean {
  try {
    mkdirSync(folder);
    return true;
  } catch (error) {
    if (hasCode(error, ['EEXIST', 'ENOENT'])) return false;
    throw error;
  }
}

/** Removes the folder and those above it up to the one that was made, as far as they are empty. */
export function removeMade(folder: string, made: string | undefined): void {
  if (made === undefined) return;
  const top = resolve(made);
  for (let each = resolve(folder); each.startsWith(top); each = dirname(each)) removeEmpty(each);
}

/** Removes a folder, unless there is something in it. */
export function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Somebody else has put something there.
  }
}

/** Throws as making the folder would, and makes nothing. */
export function requireMakeableFolder(folder: string): void {
  const whole = resolve(folder);
  for (let path = whole; ; path = dirname(path)) {
    const isFolder = isFolderAt(path);
    if (isFolder === true) return;
    if (isFolder === false) {
      throw systemError(path === whole ? 'EEXIST' : 'ENOTDIR', 'mkdir', folder);
    }
    if (dirname(path) === path) return;
  }
}

/** Undefined when nothing is there, or below a file. */
function isFolderAt(path: string): boolean | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory();
  } catch (error) {
    if (!hasCode(error, ['ENOTDIR'])) throw error;
    return undefined;
  }
}
