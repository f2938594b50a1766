/** Makes the name of a single temporary file, and recognizes interim names: what opening and saving one file needs. */

import { randomBytes } from 'node:crypto';

/** All temporary names begin with it. */
export const PREFIX = '.safetensors-mmap-';

/** Extension of a file that is being written. */
export const WRITTEN_EXTENSION = '.tmp';

const INTERIM = /^\.safetensors-mmap-[0-9a-f]{8}-[0-9a-f]{16}\.safetensors$/;

/** 16 hexadecimal digits. */
export function randomDigits(): string {
  return randomBytes(8).toString('hex');
}

/**
 * A new name for a file that is being written, `.safetensors-mmap-<16 hex digits>.tmp`: short, however
 * long the name of its target.
 */
export function makeTemporaryName(): string {
  return PREFIX + randomDigits() + WRITTEN_EXTENSION;
}

/** Whether a name is interim: of a shard that only its index can identify. */
export function isInterimName(name: string): boolean {
  return INTERIM.test(name);
}
