/**
 * Calls of `node:fs` on the thread pool, as promises. `fs/promises` has most of them only for its own
 * handles, and here there are descriptors. Reads that a signal interrupted are made again: Node does so for
 * all calls but these.
 *
 * They are promisified at the call, not at import: a bundle of the package can then load the modules
 * of Node only when something is read or written.
 */

import { close, closeSync, fsync, read, readSync, readv, rename, writev } from 'node:fs';
import { promisify } from 'node:util';
import { isMainThread } from 'node:worker_threads';
import { hasCode, namingFile } from './system-errors.js';

/** A descriptor, and the path for messages. */
export interface ReadFile {
  readonly fd: number;
  readonly path: string | undefined;
}

/** Returns when a read was interrupted; throws any other error, with the file's name. */
function requireInterrupted(error: unknown, { path }: ReadFile): void {
  if (!hasCode(error, ['EINTR'])) throw namingFile(error, path);
}

async function uninterrupted<Result>(file: ReadFile, read: () => Promise<Result>): Promise<Result> {
  for (;;) {
    try {
      return await read();
    } catch (error) {
      requireInterrupted(error, file);
    }
  }
}

/** Reads up to `length` bytes from `position` to the start of the target, on this thread. */
export function readHere(
  file: ReadFile,
  target: Uint8Array,
  length: number,
  position: number,
): number {
  for (;;) {
    try {
      return readSync(file.fd, target, 0, length, position);
    } catch (error) {
      requireInterrupted(error, file);
    }
  }
}

/** Reads up to `length` bytes from `position` to `offset` of the buffer. */
export function readAsync(
  file: ReadFile,
  buffer: Uint8Array,
  offset: number,
  length: number,
  position: number,
): Promise<{ bytesRead: number }> {
  return uninterrupted(file, () => promisify(read)(file.fd, buffer, offset, length, position));
}

/** Fills the views one after the other with bytes from `position`. */
export function readvAsync(
  file: ReadFile,
  views: readonly Uint8Array[],
  position: number,
): Promise<{ bytesRead: number }> {
  return uninterrupted(file, () => promisify(readv)(file.fd, views, position));
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

/** Renames a file, replacing an existing file of that name. */
export function renameAsync(from: string | Buffer, to: string | Buffer): Promise<void> {
  return promisify(rename)(from, to);
}
