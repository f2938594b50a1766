/** Checks the free space before fetching. */

import { statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { systemError, withAdvice } from '../../platform/io/system-errors.js';

/**
 * Throws unless the disk of the folder has `byteLength` bytes free.
 *
 * @throws Error `ENOSPC`, with `path` and the missing bytes
 */
export async function requireFreeSpace(
  folder: string,
  byteLength: number,
  path: string,
): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  // Some network file systems don't know.
  if (free === 0 || byteLength <= free) return;
  const error = systemError('ENOSPC', 'statfs', path);
  throw withAdvice(error, `the download needs ${byteLength} bytes, ${free} are free`);
}

/** Bytes that the disk must still take for a file: its length less that of its partial file. */
export function missingByteLength(byteLength: number, partial: string | undefined): number {
  const found = partial && statSync(partial, { throwIfNoEntry: false });
  return byteLength - Math.min(found ? found.size : 0, byteLength);
}
