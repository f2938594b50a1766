/** Writes bytes from memory to a file on this thread. */

import { writeSync } from 'node:fs';
import type { WrittenFile } from './file-writes.js';
import { aboutFile, systemError } from './system-errors.js';

/** Writes one view on this thread, with the errors of `writeViews`. */
export function writeViewSync(target: WrittenFile, view: Uint8Array, position: number): void {
  for (let done = 0; done < view.byteLength; ) {
    let bytesWritten: number;
    try {
      bytesWritten = writeSync(target.fd, view, done, view.byteLength - done, position + done);
    } catch (error) {
      throw aboutFile(error, target.path);
    }
    if (bytesWritten === 0) throw systemError('EIO', 'write', target.path);
    done += bytesWritten;
  }
}
