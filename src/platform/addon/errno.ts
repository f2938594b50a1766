/** Names of the system's error numbers, and Node's own numbers for them. */

import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';

/** The code of a negative errno, also of those that Node has no name for, such as `EDQUOT`. */
export function systemErrorCode(errno: number): string {
  const known = getSystemErrorMap().get(errno)?.[0];
  const found = Object.entries(constants.errno).find(([, value]) => value === -errno);
  return known ?? found?.[0] ?? `Unknown system error ${errno}`;
}

/** Node's number for a negative errno: on Windows it has separate numbers, the addon those of C. */
export function nodeErrno(errno: number): number {
  const code = systemErrorCode(errno);
  const known = [...getSystemErrorMap()].find(([, [name]]) => name === code);
  return known?.[0] ?? errno;
}
