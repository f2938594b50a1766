/**
 * Owner, permissions and access control list of a file that takes the place of another: those of the
 * old one, as far as the system lets us. Nobody but us may do more with the new file than with the old.
 */

import { fchmodSync, fchownSync, type Stats } from 'node:fs';
import { addon } from '../../platform/addon/addon.js';
import { hasCode } from '../../platform/io/system-errors.js';

/** The file that a new one is like. */
export interface LikeFile {
  readonly path: Buffer;
  readonly stats: Stats;
}

/** What of the old file the new one could keep. */
interface Kept {
  readonly owner: boolean;
  readonly group: boolean;
  /** Whether there is an access control list: undefined when that could not be copied. */
  readonly list: boolean | undefined;
}

/** Errors of file systems without permissions, or with the same permissions for all files. */
const CANNOT_CHANGE_MODE: readonly string[] = ['EPERM', 'ENOTSUP', 'ENOSYS'];

/** Makes the file of the descriptor like another. */
export function takeOver(fd: number, { path, stats }: LikeFile): void {
  const { uid, gid, mode } = stats;
  // The owner first, since changing it clears permissions. They come last: with a list, those of the
  // group limit what it grants.
  const owner = tryToChangeOwner(fd, uid, gid);
  const group = owner || tryToChangeOwner(fd, -1, gid);
  const list = copyAccessList(path, fd);
  try {
    fchmodSync(fd, permissions(mode, { owner, group, list }));
  } catch (error) {
    // Only file systems without permissions refuse this: the file is ours.
    if (!hasCode(error, CANNOT_CHANGE_MODE)) throw error;
  }
}

function tryToChangeOwner(fd: number, uid: number, gid: number): boolean {
  try {
    fchownSync(fd, uid, gid);
    return true;
  } catch {
    return false;
  }
}

/** Whether there is one; false without the addon, undefined when it could not be copied. */
function copyAccessList(path: Buffer, fd: number): boolean | undefined {
  try {
    return addon()?.copyAccessList(path, fd) ?? false;
  } catch (error) {
    // Systems without lists.
    return hasCode(error, ['ENOTSUP', 'EOPNOTSUPP']) ? false : undefined;
  }
}

/**
 * Set-user-ID and set-group-ID bits go with the owner: they would mean another user. Without the old
 * group, our group and all others get what both the old group and others had. A member of our group
 * was one of the others, and a member of the old group becomes one. With an access control list, the
 * permissions of the group are not its own but the most that the list grants.
 */
function permissions(mode: number, { owner, group, list }: Kept): number {
  if (list === undefined || (list && !group)) return mode & 0o700;
  if (owner) return mode & 0o7777;
  if (group) return mode & 0o777;
  const shared = (mode >> 3) & mode & 0o7;
  return (mode & 0o700) | (shared << 3) | shared;
}
