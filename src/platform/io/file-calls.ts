/** Calls of `node:fs` as steps: on this thread, or on the thread pool. */

import {
  access,
  type BigIntStats,
  closeSync,
  existsSync,
  fstat,
  fstatSync,
  lstat,
  lstatSync,
  open,
  openSync,
  readdir,
  readdirSync,
  readlink,
  readlinkSync,
  realpath,
  realpathSync,
  type Stats,
  stat,
  statSync,
  unlinkSync,
} from 'node:fs';
import process from 'node:process';
import { promisify } from 'node:util';
import { closeAsync, type ReadFile, readAsync, readHere } from './pool-calls.js';
import { type Steps, step } from './steps.js';
import { hasCode, namingFile } from './system-errors.js';

/** Most links that are followed one after the other, as on Linux. */
export const MAX_LINKS = 40;

/** What the system answers when there is nothing at a path. */
export const NOTHING_THERE: readonly string[] = ['ENOENT', 'ENOTDIR'];

/** What it answers when what is there is no link; the latter on Windows. */
const NO_LINK: readonly string[] = ['EINVAL', 'UNKNOWN'];

/** Opens a file; the caller closes the descriptor with `closeFile`. */
export function openPath(path: string | Buffer, flags: number): Steps<number> {
  return step({
    sync: () => openSync(path, flags),
    async: () => promisify(open)(path, flags),
    isKept: true,
  });
}

/** Closes a descriptor that was read from, as `closeQuietly`. */
export function closeFile(fd: number): Steps<void> {
  return step({
    sync: () => closeQuietly(fd),
    async: () => closeAsync(fd).catch(() => {}),
    isKept: true,
  });
}

/**
 * Closes a descriptor of a file that was only read, was synced, or is thrown away: an error is of no use then.
 * The system frees the number whatever it answers.
 */
export function closeQuietly(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // A second call would close what has the number by then.
  }
}

/** Deletes a file if it is there. `rmSync` of Node 26 gives errors without a useful code. */
export function removeFile(path: string | Buffer): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!hasCode(error, ['ENOENT'])) throw error;
  }
}

/** Deletes a file if it is there, after an error: the caller sees that one. */
export function removeQuietly(path: string | Buffer): void {
  try {
    removeFile(path);
  } catch {
    // The file stays.
  }
}

/** What the file of a descriptor is like now. */
export function statOpened(file: ReadFile): Steps<BigIntStats> {
  return step({
    sync: () => statsOf(file),
    async: async () => {
      try {
        return await promisify(fstat)(file.fd, { bigint: true });
      } catch (error) {
        throw namingFile(error, file.path);
      }
    },
  });
}

/** The same on this thread. */
export function statsOf({ fd, path }: ReadFile): BigIntStats {
  try {
    return fstatSync(fd, { bigint: true });
  } catch (error) {
    throw namingFile(error, path);
  }
}

/** Reads up to `length` bytes from `position` to the start of `target`. Returns how many. */
export function readOnce(
  file: ReadFile,
  target: Uint8Array,
  length: number,
  position: number,
): Steps<number> {
  return step({
    sync: () => readHere(file, target, length, position),
    async: async () => (await readAsync(file, target, 0, length, position)).bytesRead,
  });
}

/** What is at a path, links followed. */
export function statPath(path: string | Buffer): Steps<Stats> {
  return step({ sync: () => statSync(path), async: () => promisify(stat)(path) });
}

/** The same; undefined when nothing is there. */
export function* statAnything(path: string | Buffer): Steps<Stats | undefined> {
  try {
    return yield* statPath(path);
  } catch (error) {
    if (hasCode(error, NOTHING_THERE)) return undefined;
    throw error;
  }
}

/** What is at a path, a link itself; undefined when nothing is there. */
export function* statLink(path: string): Steps<Stats | undefined> {
  try {
    return yield* step({ sync: () => lstatSync(path), async: () => promisify(lstat)(path) });
  } catch (error) {
    if (hasCode(error, NOTHING_THERE)) return undefined;
    throw error;
  }
}

/** What the link at a path says; undefined when there is none. */
export function* linkAt(path: string): Steps<string | undefined> {
  try {
    return yield* step({
      sync: () => readlinkSync(path),
      async: () => promisify(readlink)(path),
    });
  } catch (error) {
    if (hasCode(error, [...NOTHING_THERE, ...NO_LINK])) return undefined;
    throw error;
  }
}

/**
 * The function of `node:fs` that takes links out of a path. Windows' own way fails on drives whose driver
 * does not have it, such as some RAM disks, and in wine for long paths.
 */
export function systemRealpath(): typeof realpathSync.native {
  return process.platform === 'win32' ? realpathSync : realpathSync.native;
}

/** A path without links. */
export function realPath(path: string): Steps<string> {
  const onPool = process.platform === 'win32' ? realpath : realpath.native;
  return step({ sync: () => systemRealpath()(path), async: () => promisify(onPool)(path) });
}

/** The names in a folder. */
export function listFolder(path: string): Steps<string[]> {
  return step({ sync: () => readdirSync(path), async: () => promisify(readdir)(path) });
}

/** Whether there is anything at a path; false also when the system does not tell. */
export function exists(path: string): Steps<boolean> {
  return step({
    sync: () => existsSync(path),
    async: () =>
      promisify(access)(path).then(
        () => true,
        () => false,
      ),
  });
}
