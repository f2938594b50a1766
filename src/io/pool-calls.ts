/**
 * Calls of `node:fs` on the thread pool, as promises. `fs/promises` has most of them only for its own
 * handles, and here there are descriptors.
 *
 * They are promisified at the call, not at import: a bundle of the package can then load the modules
 * of Node only when something is read or written.
 */

import { close, closeSync, fsync, read, readv, rename, writev } from 'node:fs';
import { promisify } from 'node:util';
import { isMainThread } from 'node:worker_threads';

/** Reads up to `length` bytes from `position` to `offset` of the buffer. */
export function readAsync(
  fd: number,
  buffer: Uint8Array,
  offset: number,
  length: number,
  position: number,
): Promise<{ bytesRead: number }> {
  return promisify(read)(fd, buffer, offset, length, position);
}

/** Fills the views one after the other with bytes from `position`. */
export function readvAsync(
  fd: number,
  views: readonly Uint8Array[],
  position: number,
): Promise<{ bytesRead: number }> {
  return promisify(readv)(fd, views, position);
}

/** Writes the views one after the other at `position`. */
export function writevAsync(
  fd: number,
  views: readonly Uint8Array[],
  position: number,
): Promise<{ bytesWritten: number }> {
  return promisify(writev)(fd, views, position);
}

/** Waits until the file's bytes are on the disk. */
export function fsyncAsync(fd: number): Promise<void> {
  return promisify(fsync)(fd);
}

/**
 * Closes a descriptor; in a worker on this thread. When a worker is ended, Node cancels what still waits for a thread
 * of the pool, and a descriptor whose closing was cancelled would stay open as long as the process lives.
 */
export async function closeAsync(fd: number): Promise<void> {
  if (isMainThread) await promisify(close)(fd);
  else closeSync(fd);
}

/** Gives a file another name, in place of whatever has it. */
export function renameAsync(from: string | Buffer, to: string | Buffer): Promise<void> {
  return promisify(rename)(from, to);
}
