/** Asks the disk before anything is fetched. */

import { statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { systemError, withAdvice } from '../../platform/io/system-errors.js';

/**
 * Throws unless the disk of the folder has so many bytes to spare.
 *
 * @throws Error `ENOSPC`, with `path` and how much is missing
 */
export async function requireFreeSpace(
  folder: string,
  byteLength: number,
  path: string,
): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  // Some file systems of networks do not know.
  if (free === 0 || byteLength <= free) return;
  const error = systemError('ENOSPC', 'statfs', path);
  throw withAdvice(error, `the download needs ${byteLength} bytes, ${free} are free`);
}

/** What the disk must still take for a file: all of it but what its partial file has, if there is one. */
export function missingByteLength(byteLength: number, partial: string | undefined): number {
  const found = partial && statSync(partial, { throwIfNoEntry: false });
  return byteLength - Math.min(found ? found.size : 0, byteLength);
}
