/** Calls of `node:fs` as work: on this thread, or on the thread pool. */

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
import { setImmediate } from 'node:timers/promises';
import { promisify } from 'node:util';
import { call, type Work } from '../../work/work.js';
import { provideYield } from '../../work/yielding.js';
import { closeAsync, type ReadFile, readAsync, readHere } from './pool-calls.js';
import { hasCode, namingFile } from './system-errors.js';

// Loaded on first use: importing the package must load no module of Node.
provideYield(() => setImmediate());

/** Deno's `node:fs` knows only descriptors that it has opened itself, on the same thread. */
export const IS_DENO: boolean = process.versions['deno'] !== undefined;

/** Most links to follow in a row, as on Linux. */
export const MAX_LINKS = 40;

/** Errors of a missing path. */
export const NOTHING_THERE: readonly string[] = ['ENOENT', 'ENOTDIR'];

/** Errors of a path that is not a link; the latter on Windows. */
const NO_LINK: readonly string[] = ['EINVAL', 'UNKNOWN'];

/** Opens a file; the caller closes the descriptor with `closeFile`. */
export function openPath(path: string | Buffer, flags: number): Work<number> {
  return call({
    sync: () => openSync(path, flags),
    async: () => promisify(open)(path, flags),
    isKept: true,
  });
}

/** Closes a descriptor after reading, as `closeQuietly`. */
export function closeFile(fd: number): Work<void> {
  return call({
    sync: () => closeQuietly(fd),
    async: () => closeAsync(fd).catch(() => {}),
    isKept: true,
  });
}

/**
 * Closes a descriptor of a file that was only read, was synced, or is discarded, so that an error would not matter.
 * The system frees the number even then.
 */
export function closeQuietly(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // A second call would close the next owner of the number.
  }
}

/** Deletes a file if it exists. `rmSync` of Node 26 throws errors without a useful code. */
export function removeFile(path: string | Buffer): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!hasCode(error, ['ENOENT'])) throw error;
  }
}

/** Deletes a file if it exists, after an error, which the caller gets. */
export function removeQuietly(path: string | Buffer): void {
  try {
    removeFile(path);
  } catch {
    // The file stays.
  }
}

/** Returns the current facts of a descriptor's file. */
export function statOpened(file: ReadFile): Work<BigIntStats> {
  return call({
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
): Work<number> {
  return call({
    sync: () => readHere(file, target, length, position),
    async: async () => (await readAsync(file, target, 0, length, position)).bytesRead,
  });
}

/** Returns the facts of a path, with links followed. */
export function statPath(path: string | Buffer): Work<Stats> {
  return call({ sync: () => statSync(path), async: () => promisify(stat)(path) });
}

/** As above; undefined for a missing path. */
export function* statAnything(path: string | Buffer): Work<Stats | undefined> {
  try {
    return yield* statPath(path);
  } catch (error) {
    if (hasCode(error, NOTHING_THERE)) return undefined;
    throw error;
  }
}

/** Returns the exact stats of a path, with links followed; undefined when the system returns an error. */
export function statExactly(path: string): Work<BigIntStats | undefined> {
  const options = { bigint: true } as const;
  return call({
    sync: () => {
      try {
        return statSync(path, options);
      } catch {
        return undefined;
      }
    },
    async: () => promisify(stat)(path, options).catch(() => undefined),
  });
}

/** The identity of a file on a machine. */
export function identityOf({ dev, ino }: BigIntStats): string {
  return `${dev}:${ino}`;
}

/** Returns the facts of a path, or of the link at it; undefined for a missing path. */
export function* statLink(path: string): Work<Stats | undefined> {
  try {
    return yield* call({ sync: () => lstatSync(path), async: () => promisify(lstat)(path) });
  } catch (error) {
    if (hasCode(error, NOTHING_THERE)) return undefined;
    throw error;
  }
}

/** Returns the target of the link at a path; undefined without a link. */
export function* linkAt(path: string): Work<string | undefined> {
  try {
    return yield* call({
      sync: () => readlinkSync(path),
      async: () => promisify(readlink)(path),
    });
  } catch (error) {
    if (hasCode(error, [...NOTHING_THERE, ...NO_LINK])) return undefined;
    throw error;
  }
}

/**
 * Returns the function of `node:fs` that resolves links in a path. Windows' native one fails on drives without
 * support for it, such as some RAM disks, and in wine for long paths.
 */
export function systemRealpath(): typeof realpathSync.native {
  return process.platform === 'win32' ? realpathSync : realpathSync.native;
}

/** Returns the real path. */
export function realPath(path: string): Work<string> {
  const onPool = process.platform === 'win32' ? realpath : realpath.native;
  return call({ sync: () => systemRealpath()(path), async: () => promisify(onPool)(path) });
}

/** A name in a folder. */
interface FolderEntry {
  readonly name: string;
  /** False for a link to a folder. */
  readonly isFolder: boolean;
}

/** Lists a folder. */
export function* listFolder(path: string): Work<FolderEntry[]> {
  const options = { withFileTypes: true } as const;
  const entries = yield* call({
    sync: () => readdirSync(path, options),
    async: () => promisify(readdir)(path, options),
  });
  return entries.map((entry) => ({ name: entry.name, isFolder: entry.isDirectory() }));
}

/** Whether a path exists; false also when the system gives no answer. */
export function exists(path: string): Work<boolean> {
  return call({
    sync: () => existsSync(path),
    async: () =>
      promisify(access)(path).then(
        () => true,
        () => false,
      ),
  });
}
