/**
 * An open descriptor on a regular file, with what is needed to tell later whether it is still the
 * file whose header was checked.
 */

import { closeSync, constants, fstatSync, openSync, readSync, type Stats } from 'node:fs';
import { FileChangedError, SafetensorsError } from '../errors/errors.js';

/** One read call takes at most this: Node refuses lengths of 2 GiB and above. */
const MAX_READ_BYTE_LENGTH = 2 ** 30;

/** A descriptor, and the path for messages. */
export interface ReadFile {
  readonly fd: number;
  readonly path: string | undefined;
}

/** A range of a file, in bytes. */
export interface FileRange {
  readonly position: number;
  readonly byteLength: number;
}

/** As opened by a path, with the size at open in bytes. */
export interface OpenedFile extends ReadFile {
  readonly path: string;
  readonly byteLength: number;
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a named pipe (FIFO)';
  if (stats.isCharacterDevice()) return 'a character device';
  if (stats.isBlockDevice()) return 'a block device';
  return stats.isSocket() ? 'a socket' : 'not a regular file';
}

/** Throws `SAFETENSORS_NOT_A_REGULAR_FILE` for anything else; `label` names it in the message. */
export function requireRegularFile(stats: Stats, label: string): void {
  if (stats.isFile()) return;
  const message = `expected a regular file, found ${kindOf(stats)}`;
  throw new SafetensorsError('SAFETENSORS_NOT_A_REGULAR_FILE', message, { path: label });
}

/**
 * Opens a regular file, for reading unless the flag says otherwise. `label` names it in messages.
 *
 * O_NONBLOCK keeps a FIFO without a writer from hanging the process; it means nothing for regular
 * files. Anything else than a regular file throws `SAFETENSORS_NOT_A_REGULAR_FILE`; what the system
 * refuses (`ENOENT`, `EACCES` …) is Node's own error.
 */
export function openRegularFile(
  path: string | Buffer,
  label: string,
  flag: number = constants.O_RDONLY,
): OpenedFile {
  // O_NONBLOCK does not exist on Windows, where there are no FIFOs in the file system either.
  const fd = openSync(path, flag | (constants.O_NONBLOCK ?? 0));
  try {
    const stats = fstatSync(fd);
    requireRegularFile(stats, label);
    return { fd, path: label, byteLength: stats.size };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Reads bytes from `position` into the start of `target`; how many, 0 at the end of the file. */
export type ReadBytes = (target: Uint8Array, position: number) => number;

/** Reads by the descriptor. */
export function readerOf({ fd }: ReadFile): ReadBytes {
  return (target, position) =>
    readSync(fd, target, 0, Math.min(target.byteLength, MAX_READ_BYTE_LENGTH), position);
}

/** The error of a read that came to the end of the file too early; both are bytes from its start. */
export function cutShort(
  path: string | undefined,
  expected: number,
  found: number,
): FileChangedError {
  return new FileChangedError(
    `the file was cut short: expected at least ${expected} bytes, found ${found}`,
    { path },
  );
}

/**
 * A function that throws FileChangedError when the file has got another size or modification time
 * since now. For copies, which must not be half old and half new.
 */
export function changeCheck({ fd, path }: ReadFile): () => void {
  const { size, mtimeNs } = fstatSync(fd, { bigint: true });
  return () => {
    const now = fstatSync(fd, { bigint: true });
    if (now.size === size && now.mtimeNs === mtimeNs) return;
    const expected = `${size} bytes, modified at ${mtimeNs} ns`;
    const found = `${now.size} bytes, modified at ${now.mtimeNs} ns`;
    throw new FileChangedError(
      `the file changed while it was read: expected ${expected}, found ${found}; open it again`,
      { path },
    );
  };
}

/** Fills `target` from `position`; FileChangedError when the file ends before. */
export function readFully(
  read: ReadBytes,
  target: Uint8Array,
  position: number,
  path: string | undefined,
): void {
  let done = 0;
  while (done < target.byteLength) {
    const count = read(target.subarray(done), position + done);
    if (count === 0) {
      throw cutShort(path, position + target.byteLength, position + done);
    }
    done += count;
  }
}
