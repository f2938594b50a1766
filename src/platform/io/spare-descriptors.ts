/** Descriptors of closed files of which tensors are left: given up when the process has no other ones. */

import { fstatSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { closeQuietly } from './file-calls.js';

/** The descriptor of a file, which its owner opens again by the path after it was given up. */
export interface SpareDescriptor {
  /** -1 when it was given up. */
  fd: number;
  /** Absolute when it was given up. */
  path: string;
  /** The file that `path` must lead to then. */
  identity: FileIdentity | undefined;
  /** How many read from it at the moment. */
  lent: number;
}

/** What tells files of a machine apart. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** Those of this thread, the oldest first. */
const spares = new Set<SpareDescriptor>();

/** Lets a descriptor be given up. */
export function addSpare(descriptor: SpareDescriptor): void {
  spares.add(descriptor);
}

/** Takes that back. */
export function removeSpare(descriptor: SpareDescriptor): void {
  spares.delete(descriptor);
}

/** Closes those that nobody reads from, and whose path still leads to the same file. Whether there were any. */
export function giveUpSpares(): boolean {
  let count = 0;
  for (const spare of spares) {
    if (spare.fd === -1 || spare.lent > 0) continue;
    const path = resolve(spare.path);
    const identity = fstatSync(spare.fd, { bigint: true });
    if (!leadsTo(path, identity)) continue;
    closeQuietly(spare.fd);
    spare.fd = -1;
    spare.path = path;
    spare.identity = { dev: identity.dev, ino: identity.ino };
    count++;
  }
  return count > 0;
}

/** Whether both are the same file. */
export function isSameFile(one: FileIdentity, other: FileIdentity): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}

function leadsTo(path: string, identity: FileIdentity): boolean {
  try {
    return isSameFile(statSync(path, { bigint: true }), identity);
  } catch {
    return false;
  }
}
