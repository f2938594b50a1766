/** Chooses how an opened file's bytes are reached. */

import { addon } from '../addon/addon.js';
import { loadAddon } from '../addon/load.js';
import { SafetensorsError } from '../errors/errors.js';
import type { OpenedFile } from '../io/opened-file.js';
import type { FileBackedStorage } from './file-backed.js';
import { MappedStorage } from './mapped.js';
import { ReadStorage } from './read.js';

// With the module, so that the first open of a process does not wait for it.
addon();

/** What the caller wants of a storage. */
export interface StorageOptions {
  /** Undefined: map, and read where that is not possible. */
  readonly storage?: 'mmap' | 'read' | undefined;
  /** Whether a mapping is guarded against the file being cut short; true by default. */
  readonly guard?: boolean | undefined;
}

/**
 * Maps the file or prepares to read it, and takes the descriptor over; when it throws, that is still
 * the caller's.
 *
 * @throws SafetensorsError `SAFETENSORS_MAPPING_UNAVAILABLE` when a mapping was asked for by name
 * @throws Node's `ENOMEM` when there is no room for a mapping: reading would need more memory still
 */
export function openStorage(file: OpenedFile, options: StorageOptions): FileBackedStorage {
  if (options.storage === 'read') return new ReadStorage(file);
  const load = loadAddon();
  if ('unavailable' in load) return withoutMapping(file, options, load.unavailable, undefined);
  try {
    return new MappedStorage(file, load.addon, options.guard ?? true);
  } catch (error) {
    // ENODEV: the file system has no mappings, as some network and FUSE ones.
    if ((error as NodeJS.ErrnoException).code !== 'ENODEV') throw error;
    return withoutMapping(file, options, 'the file system does not support mappings', error);
  }
}

function withoutMapping(
  file: OpenedFile,
  options: StorageOptions,
  reason: string,
  cause: unknown,
): FileBackedStorage {
  if (options.storage === undefined) return new ReadStorage(file);
  throw new SafetensorsError('SAFETENSORS_MAPPING_UNAVAILABLE', `cannot map the file: ${reason}`, {
    path: file.path,
    cause,
  });
}
