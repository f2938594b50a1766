/** Makes folders for files, and removes them again when the files do not come. */

import { existsSync, mkdirSync, rmdirSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { hasCode, systemError } from '../../platform/io/system-errors.js';

/**
 * Makes a folder and its missing parents; returns the topmost new one. After an error no new folder is left. (Node's
 * recursive `mkdir` leaves new folders behind, and reports most errors as `ENOENT`.)
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
    // An existing path must be a folder; another save may have just removed one.
    const madeAgain = mkdirSync(folder, { recursive: true });
    return made ?? madeAgain;
  } catch (error) {
    removeCreated(folder, made);
    throw error;
  }
}

/** Makes one folder; false when another process has just made it, or removed its parent. */
function madeNow(folder: string): boolean {
  try {
    mkdirSync(folder);
    return true;
  } catch (error) {
    if (hasCode(error, ['EEXIST', 'ENOENT'])) return false;
    throw error;
  }
}

/** Removes the empty folders from `folder` up to the topmost new one. */
export function removeCreated(folder: string, made: string | undefined): void {
  if (made === undefined) return;
  const top = resolve(made);
  for (let each = resolve(folder); each.startsWith(top); each = dirname(each)) removeEmpty(each);
}

/** Removes a folder if it is empty. */
export function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Another process has put a file there.
  }
}

/** Throws the errors of making the folder, without making it. */
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

/** Undefined when nothing exists at the path, or a parent is a file: `statSync` of Node 20 throws for such a path. */
export function isFolderAt(path: string): boolean | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isDirectory();
  } catch (error) {
    if (!hasCode(error, ['ENOTDIR'])) throw error;
    return undefined;
  }
}
