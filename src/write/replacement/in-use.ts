/**
 * On Windows, a file that is open or mapped cannot be replaced. Finds such files before anything is written; a file
 * that is mapped by a program that has closed it is found by the rename only.
 */

import { closeSync, constants, openSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { SafetensorsError } from '../../errors/errors.js';
import { hasCode } from '../../platform/io/system-errors.js';

/** Windows' errors when the target of a rename is open or mapped. */
const IN_USE: readonly string[] = ['EPERM', 'EACCES', 'EBUSY'];

/** `UV_FS_O_EXLOCK`: opening fails while the file is open elsewhere. */
const EXCLUSIVE = 0x1000_0000;

/** The error for a file in use on Windows; undefined for other errors, and on other systems. */
export function inUseError(error: unknown, label: string): SafetensorsError | undefined {
  if (process.platform !== 'win32' || !hasCode(error, IN_USE)) return undefined;
  return new SafetensorsError(
    'SAFETENSORS_TARGET_IN_USE',
    'expected a file that can be replaced, found one that is open, mapped or protected; close it ' +
      'with close({ detach: true }), end other programs that use it, and save again',
    { path: label, cause: error },
  );
}

/**
 * Throws for a file that is in use. `label` is its path in messages; nothing need be there.
 *
 * @throws SafetensorsError `SAFETENSORS_TARGET_IN_USE` on Windows
 */
export function requireNotInUse(path: string | Buffer, label: string): void {
  if (process.platform !== 'win32') return;
  try {
    closeSync(openSync(path, constants.O_RDONLY | EXCLUSIVE));
  } catch (error) {
    // Other errors are those of the write.
    const inUse = inUseError(error, label);
    if (inUse !== undefined) throw inUse;
  }
}

/** What a write does to the files of a folder. */
interface Changes {
  /** Names of deleted files; they may be in use, and stay then. */
  readonly deleted: readonly string[];
  /** The replaced and deleted files. */
  readonly replaced: readonly { readonly name: string }[];
}

/**
 * Throws for a file of the folder that is in use and will be replaced.
 *
 * @throws As {@link requireNotInUse}
 */
export function requireReplacedNotInUse(folder: string, { deleted, replaced }: Changes): void {
  for (const { name } of replaced) {
    const path = join(folder, name);
    if (!deleted.includes(name)) requireNotInUse(path, path);
  }
}
