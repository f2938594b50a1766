/** Opens the files that are served, for each request, and returns their versions. */

import { constants } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { closeFile, NOTHING_THERE, realPath, statOpened } from '../../platform/io/file-calls.js';
import { changeCheck, openRegularFile } from '../../platform/io/opened-file.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { runAsync } from '../../work/work.js';
import type { ServedFile } from './model-files.js';

/** Errors when the file is not what it was: gone, a link, another kind of file, or no longer readable. */
const NOT_THERE: readonly string[] = [
  ...NOTHING_THERE,
  ...['ELOOP', 'EMLINK', 'EACCES', 'EPERM', 'SAFETENSORS_NOT_A_REGULAR_FILE'],
];

/** A file that is replaced between two checks is opened again, so many times at most. */
const MAX_TRIES = 3;

/** An open file. The caller closes it by `closeFile(fd)`. */
export interface OpenedVersion {
  readonly fd: number;
  /** Its path, for messages. */
  readonly path: string;
  readonly byteLength: number;
  /** A strong ETag: another size, time of modification or file is another version. */
  readonly tag: string;
  /** Throws a FileChangedError once the file is another version. */
  readonly requireSame: () => void;
  /** Whether the path still leads to this version, which is open: no other file can have its number. */
  readonly isAtPath: () => Promise<boolean>;
  /** What is sent instead of the bytes of the file. */
  readonly virtual: ServedFile['virtual'];
}

/**
 * Opens a file; null when it is not there any more. The answer comes from this descriptor alone, whatever happens to the
 * path meanwhile.
 *
 * The path had no links when the server began. One that stands there now, at its end or as a folder in it, leads to a
 * file that nobody named, and is refused: the descriptor must be of the file that the path leads to without links.
 *
 * @throws Other errors of the system, such as `EMFILE` and `EIO`
 */
export async function openVersion(named: ServedFile): Promise<OpenedVersion | null> {
  try {
    for (let tries = 0; tries < MAX_TRIES; tries++) {
      const file = await openOnce(named);
      if (file !== null) return file;
    }
    return null;
  } catch (error) {
    if (hasCode(error, NOT_THERE)) return null;
    throw error;
  }
}

/** Null when the path leads to another file than that which was opened. */
async function openOnce({ path, virtual }: ServedFile): Promise<OpenedVersion | null> {
  const flags = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0);
  const { fd } = await runAsync(openRegularFile(path, path, flags), undefined);
  let isNamed = false;
  try {
    const requireSame = changeCheck({ fd, path });
    const { dev, ino, size, mtimeNs, ctimeNs } = await runAsync(
      statOpened({ fd, path }),
      undefined,
    );
    const isReal = (await runAsync(realPath(path), undefined)) === path;
    const now = await lstat(path, { bigint: true });
    isNamed = isReal && now.dev === dev && now.ino === ino;
    const isAtPath = async (): Promise<boolean> => {
      const found = await lstat(path, { bigint: true }).catch(() => undefined);
      // Its change time is also that of its permissions.
      const isSame = found?.size === size && found.mtimeNs === mtimeNs && found.ctimeNs === ctimeNs;
      return isSame && found.dev === dev && found.ino === ino;
    };
    const tag = `"${[size, mtimeNs, ino].map((fact) => fact.toString(36)).join('-')}"`;
    const byteLength = virtual?.byteLength ?? Number(size);
    const version = { fd, path, byteLength, tag, requireSame, isAtPath, virtual };
    return isNamed ? version : null;
  } finally {
    if (!isNamed) await runAsync(closeFile(fd), undefined);
  }
}
