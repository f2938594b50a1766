/**
 * Reads whole files of some kilobytes. Node's `readFile` has a descriptor of its own, which stays open when a worker is
 * ended meanwhile; these go by calls that leave none.
 */

import { constants } from 'node:fs';
import { closeFile, openPath, readOnce, statOpened } from './file-calls.js';
import type { ReadFile } from './pool-calls.js';
import type { Steps } from './steps.js';

/** Returns all bytes of an open file. */
export function* readOpened(file: ReadFile): Steps<Buffer> {
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
export function* readSmallFile(path: string): Steps<Buffer> {
  const fd = yield* openPath(path, constants.O_RDONLY);
  try {
    return yield* readOpened({ fd, path });
  } finally {
    yield* closeFile(fd);
  }
}

/** Returns all bytes of a file as text, one character per byte. */
export function* readText(path: string): Steps<string> {
  return (yield* readSmallFile(path)).toString('latin1');
}
