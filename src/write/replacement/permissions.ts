/**
 * Gives a new file the owner, permissions and access control list of the file that it replaces, as far as the system
 * allows. No other user may do more with the new file than with the old one.
 */

import { fchmodSync, fchownSync, type Stats } from 'node:fs';
import { addon } from '../../platform/addon/addon.js';
import { hasCode } from '../../platform/io/system-errors.js';

/** The facts of the old file to take over. */
export interface LikeFile {
  readonly path: Buffer;
  readonly stats: Stats;
}

/** The facts that the new file could take over. */
interface Kept {
  readonly owner: boolean;
  readonly group: boolean;
  /** Whether the file has an access control list; undefined when the list could not be copied. */
  readonly list: boolean | undefined;
}

/** Errors of file systems without permissions, or with the same permissions for all files. */
const CANNOT_CHANGE_MODE: readonly string[] = ['EPERM', 'ENOTSUP', 'ENOSYS'];

/** Gives the file of the descriptor another file's owner and permissions. */
export function takeOver(fd: number, { path, stats }: LikeFile): void {
  const { uid, gid, mode } = stats;
  // The owner first, because changing it clears permissions. Permissions last: with an access control list, those of
  // the group limit what the list grants.
  const owner = tryToChangeOwner(fd, uid, gid);
  const group = owner || tryToChangeOwner(fd, -1, gid);
  const list = copyAccessList(path, fd);
  try {
    fchmodSync(fd, permissions(mode, { owner, group, list }));
  } catch (error) {
    // The file is ours, so only file systems without permissions refuse this.
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

/** Copies the access control list, if the file has one. False without the addon; undefined when copying failed. */
function copyAccessList(path: Buffer, fd: number): boolean | undefined {
  try {
    return addon()?.copyAccessList(path, fd) ?? false;
  } catch (error) {
    // Systems without access control lists.
    return hasCode(error, ['ENOTSUP', 'EOPNOTSUPP']) ? false : undefined;
  }
}

/**
 * Drops set-user-ID and set-group-ID bits when the owner changes, because they would then mean another user. When the
 * old group cannot be kept, our group and all other users get only the rights that both the old group and other users
 * had: a member of our group was an other user before, and a member of the old group becomes one. With an access
 * control list, the group's permissions are the most that the list grants.
 */
function permissions(mode: number, { owner, group, list }: Kept): number {
  if (list === undefined || (list && !group)) return mode & 0o700;
  if (owner) return mode & 0o7777;
  if (group) return mode & 0o777;
  const shared = (mode >> 3) & mode & 0o7;
  return (mode & 0o700) | (shared << 3) | shared;
}
