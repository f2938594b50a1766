/** Spare descriptors: those of closed files with live tensors, given up when the process runs out of others. */

import { fstatSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { closeQuietly } from './file-calls.js';

/** The descriptor of a file. After it is given up, its owner reopens the file by the path. */
export interface SpareDescriptor {
  /** -1 after it was given up. */
  fd: number;
  /** Absolute after it was given up. */
  path: string;
  /** The file that `path` must lead to then. */
  identity: FileIdentity | undefined;
  /** Number of reads under way. */
  lent: number;
}

/** The identity of a file on a machine. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** The spare descriptors of this thread, the oldest first. */
const spares = new Set<SpareDescriptor>();

/** Offers a descriptor to be given up. */
export function addSpare(descriptor: SpareDescriptor): void {
  spares.add(descriptor);
}

/** Withdraws the offer. */
export function removeSpare(descriptor: SpareDescriptor): void {
  spares.delete(descriptor);
}

/** Closes idle spare descriptors whose path still leads to the same file. Returns whether it closed any. */
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
