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
  readSync,
  realpath,
  realpathSync,
  type Stats,
  stat,
  statSync,
} from 'node:fs';
import process from 'node:process';
import { promisify } from 'node:util';
import { closeAsync, readAsync } from './pool-calls.js';
import { type Steps, step } from './steps.js';
import { hasCode } from './system-errors.js';

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

/** Closes a descriptor. */
export function closeFile(fd: number): Steps<void> {
  return step({
    sync: () => closeSync(fd),
    async: () => closeAsync(fd),
    isKept: true,
  });
}

/** What the file of a descriptor is like now. */
export function statOpened(fd: number): Steps<BigIntStats> {
  return step({
    sync: () => fstatSync(fd, { bigint: true }),
    async: () => promisify(fstat)(fd, { bigint: true }),
  });
}

/** Reads up to `length` bytes from `position` to the start of `target`. Returns how many. */
export function readOnce(
  fd: number,
  target: Uint8Array,
  length: number,
  position: number,
): Steps<number> {
  return step({
    sync: () => readSync(fd, target, 0, length, position),
    async: async () => (await readAsync(fd, target, 0, length, position)).bytesRead,
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
