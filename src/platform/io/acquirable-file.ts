/** Files to read from whose descriptors need to be open only during a call. */

import { Slots } from '../../work/slots.js';
import { runAsync, type Work } from '../../work/work.js';
import { type ReadBytes, readBytesOf, readFully } from './opened-file.js';
import type { ReadFile } from './pool-calls.js';

/** A file whose descriptor may be closed between two uses, because there may be more files than descriptors. */
export interface AcquirableFile {
  /** For messages. */
  readonly path: string | undefined;
  /**
   * Returns the descriptor, which stays open until as many calls of `release`.
   *
   * @throws FileChangedError when the path leads to another file by now; errors of the system
   */
  acquire(): number;
  release(): void;
}

/** A file with a descriptor that the caller keeps open. */
export function alwaysOpen({ fd, path }: ReadFile): AcquirableFile {
  return { path, acquire: () => fd, release: () => {} };
}

/**
 * Slots for reads that fill buffers of writers, each with its file open meanwhile: hundreds of short tensors, each of
 * another file, may share a buffer. Twice as many as the thread pool runs at once by default.
 */
export const fillSlots: Slots = new Slots(8);

/** Returns a function that fills buffers on the thread pool with the bytes from `begin` of the file on. */
export function fillFrom(
  file: AcquirableFile,
  begin: number,
): (target: Uint8Array, position: number) => Promise<void> {
  const read = readAcquired(file);
  return (target, position) =>
    fillSlots.run(() => runAsync(readFully(read, target, begin + position, file.path), undefined));
}

/** Reads through the descriptor, which is acquired for every call. */
export function readAcquired(file: AcquirableFile): ReadBytes {
  return function* read(target, position): Work<number> {
    const fd = file.acquire();
    try {
      return yield* readBytesOf({ fd, path: file.path })(target, position);
    } finally {
      file.release();
    }
  };
}
