/**
 * Descriptors that are reclaimed when the process runs out of others: those of closed files with live tensors, and
 * those of the open shards of a checkpoint.
 */

import { type BigIntStats, fstatSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import { closeQuietly } from './file-calls.js';

/** The descriptor of a file. After it is reclaimed, its owner reopens the file by the path. */
export interface ReclaimableDescriptor {
  /** -1 after it was reclaimed. */
  fd: number;
  /** Absolute after it was reclaimed. */
  path: string;
  /** The file that `path` must lead to then. */
  identity: FileIdentity | undefined;
  /** Number of reads under way. */
  users: number;
}

/** The identity of a file on a machine. */
export interface FileIdentity {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** The spare descriptors of this thread, the oldest first. */
const spares = new Set<ReclaimableDescriptor>();

/** Offers a descriptor to be reclaimed. */
export function addReclaimable(descriptor: ReclaimableDescriptor): void {
  spares.add(descriptor);
}

/** Withdraws the offer. */
export function removeReclaimable(descriptor: ReclaimableDescriptor): void {
  spares.delete(descriptor);
}

/** Open files that work without their descriptors, too, such as the shards of a checkpoint. */
export interface DescriptorHolder {
  /** Closes descriptors that no call uses. Returns their number. */
  reclaimDescriptors(): number;
}

/** The holders of this thread. Weak: a checkpoint that is dropped without `close()` can be collected. */
const holders = new Set<WeakRef<DescriptorHolder>>();

const collected = new FinalizationRegistry<WeakRef<DescriptorHolder>>((holder) => {
  holders.delete(holder);
});

/** Adds a holder, until the returned function is called. */
export function addHolder(holder: DescriptorHolder): () => void {
  const reference = new WeakRef(holder);
  holders.add(reference);
  collected.register(holder, reference, reference);
  return () => {
    holders.delete(reference);
    collected.unregister(reference);
  };
}

/** The descriptors that a holder may retain: without a limit until the process has run out once. */
let maxRetained = Number.POSITIVE_INFINITY;

/** Returns the number of descriptors that a holder may retain, so that other code finds some. */
export function maxRetainedDescriptors(): number {
  return maxRetained;
}

/** A holder may always retain that many: other code needs fewer. */
const MIN_RETAINED = 16;

/** Limits what holders may retain to half of the descriptors that were reclaimed when the process had none left. */
export function retainFewer(reclaimed: number): void {
  maxRetained = Math.min(maxRetained, Math.max(MIN_RETAINED, Math.floor(reclaimed / 2)));
}

/** Closes idle descriptors whose path still leads to the same file. Returns their number. */
export function reclaimDescriptors(): number {
  let count = 0;
  for (const spare of spares) if (reclaimDescriptor(spare)) count++;
  for (const holder of holders) count += holder.deref()?.reclaimDescriptors() ?? 0;
  return count;
}

/** Closes a descriptor, unless a read uses it, or its path leads to another file. Returns whether it closed it. */
export function reclaimDescriptor(spare: ReclaimableDescriptor): boolean {
  if (spare.fd === -1 || spare.users > 0) return false;
  const path = resolve(spare.path);
  const identity = fstatSync(spare.fd, { bigint: true });
  if (!leadsTo(path, identity)) return false;
  closeQuietly(spare.fd);
  spare.fd = -1;
  spare.path = path;
  spare.identity = { dev: identity.dev, ino: identity.ino };
  return true;
}

/** Whether both are the same file. */
export function isSameFile(one: FileIdentity, other: FileIdentity): boolean {
  return one.dev === other.dev && one.ino === other.ino;
}

function leadsTo(path: string, identity: FileIdentity): boolean {
  return statsOfFile(path, identity) !== undefined;
}

/** The stats of a path; undefined unless it leads to this file. */
export function statsOfFile(path: string, identity: FileIdentity): BigIntStats | undefined {
  try {
    const stats = statSync(path, { bigint: true });
    return isSameFile(stats, identity) ? stats : undefined;
  } catch {
    return undefined;
  }
}
