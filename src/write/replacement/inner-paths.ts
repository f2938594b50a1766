/**
 * Builds paths below a target folder from names of a checkpoint or server. Refuses a link among the folders, because
 * it would lead the bytes elsewhere.
 */

import { lstatSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { FormatError, quoteName } from '../../errors/errors.js';
import { hasCode } from '../../platform/io/system-errors.js';

/** Returns the folders between a folder and a file in it, outermost first; empty for a file directly in it. */
export function foldersOf(folder: string, name: string): string[] {
  const parts = name.split('/').slice(0, -1);
  return parts.map((_, last) => join(folder, ...parts.slice(0, last + 1)));
}

function isLinkHere(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true;
}

/**
 * Returns the path of a file by its name below a folder, with `/`. Call it right before every step that writes there:
 * the answer holds only for that moment.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` when a folder between the two is a link
 */
export function innerPath(folder: string, name: string): string {
  const link = foldersOf(folder, name).find(isLinkHere);
  if (link === undefined) return join(folder, name);
  const found = quoteName(link.slice(folder.length).replace(/^[\\/]+/, ''));
  const message =
    `expected folders inside the target for ${quoteName(name)}, found a link: ${found}; ` +
    'remove it, or choose another folder';
  throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { path: folder });
}

/**
 * Makes the folders between a folder and a file in it, and adds the new ones to `made`.
 *
 * @throws As `innerPath`; errors of the system
 */
export function makeInnerFolders(folder: string, name: string, made: string[] = []): void {
  for (const path of foldersOf(folder, name)) {
    try {
      mkdirSync(path);
      made.push(path);
    } catch (error) {
      if (!hasCode(error, ['EEXIST'])) throw error;
    }
    // One at a time, because a link would lead the next one elsewhere.
    innerPath(folder, name);
  }
}
