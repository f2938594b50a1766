/**
 * Whole files of some kilobytes. `readFile` and `writeFile` of Node have their own descriptors, which stay open
 * when a worker is ended meanwhile; these go by calls that leave none.
 */

import { constants } from 'node:fs';
import { runAsync, type Work } from '../../work/work.js';
import { retryWithoutDropped } from './dropped-files.js';
import {
  closeFile,
  closeQuietly,
  openPath,
  readOnce,
  removeQuietly,
  statOpened,
} from './file-calls.js';
import { writeViews } from './file-writes.js';
import { closeAsync, fsyncAsync, type ReadFile } from './pool-calls.js';
import { aboutFile } from './system-errors.js';

/** Returns all bytes of an open file. */
export function* readOpened(file: ReadFile): Work<Buffer> {
  const bytes = Buffer.alloc(Number((yield* statOpened(file)).size));
  let done = 0;
  while (done < bytes.length) {
    const count = yield* readOnce(file, bytes.subarray(done), bytes.length - done, done);
    if (count === 0) break;
    done += count;
  }
  return bytes.subarray(0, done);
}

/** Returns all bytes of a file. */
export function* readSmallFile(path: string): Work<Buffer> {
  const fd = yield* retryWithoutDropped(() => openPath(path, constants.O_RDONLY));
  try {
    return yield* readOpened({ fd, path });
  } finally {
    yield* closeFile(fd);
  }
}

/** Returns all bytes of a file as text, one character per byte. */
export function* readText(path: string): Work<string> {
  return (yield* readSmallFile(path)).toString('latin1');
}

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
  const fd = await runAsync(
    retryWithoutDropped(() => openPath(path, O_WRONLY | O_CREAT | O_EXCL)),
    undefined,
  );
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
