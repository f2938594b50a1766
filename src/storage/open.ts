/** Chooses the storage of an opened file. */

import { addon } from '../addon/addon.js';
import { loadAddon } from '../addon/load.js';
import { SafetensorsError } from '../errors/errors.js';
import type { OpenedFile } from '../io/opened-file.js';
import type { FileBackedStorage } from './file-backed.js';
import { MappedStorage } from './mapped.js';
import { ReadStorage } from './read.js';

// Loaded with this module: the first open of a process does not wait for it.
addon();

/** Which storage the caller wants. */
export interface StorageOptions {
  /** By default the file is mapped, and read where it cannot be mapped. */
  readonly storage?: 'mmap' | 'read' | undefined;
  /** Whether a mapping is guarded against truncation of the file; true by default. */
  readonly guard?: boolean | undefined;
}

/**
 * Maps the file or prepares to read it. Takes ownership of the descriptor; when it throws, the
 * descriptor is still the caller's.
 *
 * @throws SafetensorsError `SAFETENSORS_MAPPING_UNAVAILABLE` when a mapping was asked for by name
 * @throws Node's `ENOMEM` when there is no room for a mapping: reading would need even more memory
 */
export function openStorage(file: OpenedFile, options: StorageOptions): FileBackedStorage {
  if (options.storage === 'read') return new ReadStorage(file);
  const load = loadAddon();
  if ('unavailable' in load) return withoutMapping(file, options, load.unavailable, undefined);
  try {
    return new MappedStorage(file, load.addon, options.guard ?? true);
  } catch (error) {
    // ENODEV: some network and FUSE file systems have no mappings.
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
