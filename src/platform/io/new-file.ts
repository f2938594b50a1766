/**
 * Writes new files of some kilobytes. Node's `writeFile` has a descriptor of its own, which stays open when a worker is
 * ended meanwhile; this goes by calls that leave none.
 */

import { constants } from 'node:fs';
import { closeQuietly, openPath, removeQuietly } from './file-calls.js';
import { writeViews } from './file-writes.js';
import { closeAsync, fsyncAsync } from './pool-calls.js';
import { runAsync } from './steps.js';
import { aboutFile } from './system-errors.js';

/**
 * Writes a new file, and syncs it if `durable`. After an error no file is left.
 *
 * @throws `EEXIST` for an existing path
 */
export async function writeNewFile(
  path: string,
  text: string,
  { durable }: { readonly durable: boolean },
): Promise<void> {
  const { O_WRONLY, O_CREAT, O_EXCL } = constants;
  const fd = await runAsync(openPath(path, O_WRONLY | O_CREAT | O_EXCL), undefined);
  let isOpen = true;
  try {
    await writeViews({ fd, path }, [Buffer.from(text)], 0);
    if (durable) await fsyncAsync(fd);
    isOpen = false;
    await closeAsync(fd);
  } catch (error) {
    if (isOpen) closeQuietly(fd);
    removeQuietly(path);
    throw aboutFile(error, path);
  }
}
