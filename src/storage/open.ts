/** Chooses the storage of an opened file. */

import { type AddonUnavailable, loadAddon } from '../addon/load.js';
import { SafetensorsError } from '../errors/errors.js';
import { retryWithoutDropped } from '../io/dropped-files.js';
import type { OpenedFile } from '../io/opened-file.js';
import type { FileBackedStorage } from './file-backed.js';
import { MappedStorage } from './mapped.js';
import { warnOfReading } from './mapping-status.js';
import { ReadStorage } from './read.js';

/** Which storage the caller wants. */
export interface StorageOptions {
  /** By default the file is mapped; where it cannot be, a warning says why, and it is read. */
  readonly storage?: 'mmap' | 'read' | undefined;
  /** Whether a mapping is guarded against truncation of the file; true by default. */
  readonly guard?: boolean | undefined;
}

const NO_MAPPINGS: AddonUnavailable = {
  reason: 'its file system does not support mappings',
  remedy: 'Copy it to a local disk',
};

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
  if (!('addon' in load)) return withoutMapping(file, options, load, undefined);
  try {
    return retryWithoutDropped(() => new MappedStorage(file, load.addon, options.guard ?? true));
  } catch (error) {
    // ENODEV: some network and FUSE file systems have no mappings.
    if ((error as NodeJS.ErrnoException).code !== 'ENODEV') throw error;
    return withoutMapping(file, options, NO_MAPPINGS, error);
  }
}

function withoutMapping(
  file: OpenedFile,
  options: StorageOptions,
  { reason, remedy }: AddonUnavailable,
  cause: unknown,
): FileBackedStorage {
  if (options.storage === undefined) {
    warnOfReading(file.path, reason, remedy);
    return new ReadStorage(file);
  }
  const message = `cannot map the file, because ${reason}. ${remedy}. Without the storage option the file is read`;
  const code = 'SAFETENSORS_MAPPING_UNAVAILABLE';
  throw new SafetensorsError(code, message, { path: file.path, cause });
}
