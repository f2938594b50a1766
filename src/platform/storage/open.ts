/** Chooses the storage of an opened file. */

import { FileChangedError, SafetensorsError } from '../../errors/errors.js';
import { type Addon, type AddonUnavailable, loadAddon, type Mapping } from '../addon/load.js';
import { retryWithoutDropped } from '../io/dropped-files.js';
import { closeOwn, type OpenedFile } from '../io/opened-file.js';
import { type Steps, step } from '../io/steps.js';
import { hasCode } from '../io/system-errors.js';
import type { FileBackedStorage } from './file-backed.js';
import { MappedStorage } from './mapped.js';
import { warnOfReading } from './mapping-status.js';
import { ReadStorage } from './read.js';

/** The options of a storage. */
export interface StorageOptions {
  /** By default the file is mapped; if that fails, a warning gives the reason, and the file is read. */
  readonly storage?: 'mmap' | 'read' | undefined;
  /** Whether a mapping is guarded against truncation of the file; true by default. */
  readonly guard?: boolean | undefined;
}

const NO_MAPPINGS: AddonUnavailable = {
  reason: 'its file system does not support mappings',
  remedy: 'Copy it to a local disk',
};

/**
 * Maps the file or prepares to read it. Takes ownership of the descriptor, unless it is borrowed, and of `start`, all
 * bytes before the tensor data; when it throws, the descriptor is still the caller's.
 *
 * @throws SafetensorsError `SAFETENSORS_MAPPING_UNAVAILABLE` when `storage: 'mmap'` cannot be had
 * @throws Node's `ENOMEM` without room for a mapping: reading would need even more memory
 */
export function* openStorage(
  file: OpenedFile,
  start: Uint8Array,
  options: StorageOptions,
): Steps<FileBackedStorage> {
  if (options.storage === 'read') return new ReadStorage(file, start);
  const load = loadAddon();
  if (!('addon' in load)) return withoutMapping(file, start, options, load, undefined);
  let mapping: Mapping;
  try {
    mapping = yield* retryWithoutDropped(() => map(file, load.addon, options.guard ?? true));
  } catch (error) {
    // Windows cannot map beyond the end of the file.
    if (hasCode(error, ['ENODATA'])) throw cutShortMeanwhile(file, error);
    // Some network and FUSE file systems have no mappings.
    if (!hasCode(error, ['ENODEV'])) throw error;
    return withoutMapping(file, start, options, NO_MAPPINGS, error);
  }
  const storage = new MappedStorage(file, start, load.addon, mapping);
  // Last, and by `fs`, which keeps a list of each worker's descriptors.
  yield* closeOwn(file);
  return storage;
}

/** Maps on this thread in both ways: that reads nothing, and takes less time than a call of the pool. */
function map({ fd, byteLength, path }: OpenedFile, addon: Addon, guard: boolean): Steps<Mapping> {
  const mapped = (): Mapping => addon.mapFile(fd, byteLength, guard, path);
  return step({ sync: mapped, async: async () => mapped(), isKept: true });
}

function cutShortMeanwhile({ path }: OpenedFile, cause: unknown): FileChangedError {
  const message = 'the file was cut short while it was opened; open it again';
  return new FileChangedError(message, { path, cause });
}

function withoutMapping(
  file: OpenedFile,
  start: Uint8Array,
  options: StorageOptions,
  { reason, remedy }: AddonUnavailable,
  cause: unknown,
): FileBackedStorage {
  if (options.storage === undefined) {
    warnOfReading(file.path, reason, remedy);
    return new ReadStorage(file, start);
  }
  const message = `cannot map the file, because ${reason}. ${remedy}. Without the storage option the file is read`;
  const code = 'SAFETENSORS_MAPPING_UNAVAILABLE';
  throw new SafetensorsError(code, message, { path: file.path, cause });
}
