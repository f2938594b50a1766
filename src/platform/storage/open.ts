/** Chooses the storage of an opened file. */

import { argumentRangeError, type OptionNames, requireBoolean } from '../../errors/arguments.js';
import { FileChangedError, SafetensorsError } from '../../errors/errors.js';
import { call, type Work } from '../../work/work.js';
import { type Addon, type AddonUnavailable, loadAddon, type Mapping } from '../addon/load.js';
import { retryWithoutDropped } from '../io/dropped-files.js';
import { closeOwn, type OpenedFile } from '../io/opened-file.js';
import { hasCode } from '../io/system-errors.js';
import type { FileBackedStorage } from './file-backed.js';
import { MappedStorage } from './mapped.js';
import { warnOfReading } from './mapping-status.js';
import { ReadStorage } from './read.js';

/** How the bytes of an opened file are reached. */
export interface StorageOptions {
  /**
   * `'mmap'` throws when the file cannot be mapped; `'read'` reads tensors into ordinary memory. By
   * default the file is mapped. When it cannot be (no binary for the platform, a bundle without it, a
   * file system without mappings), it is read, and the process gets one warning with the code
   * `SAFETENSORS_MAPPING_UNAVAILABLE`; `mappingStatus()` tells programs.
   */
  readonly storage?: 'mmap' | 'read' | undefined;
  /**
   * Linux: whether to install a SIGBUS handler, so that reading beyond the end of a truncated file gives zeros
   * instead of ending the process. True by default.
   */
  readonly guard?: boolean | undefined;
  /**
   * `'random'` for programs that index the views of a mapped file here and there, such as rows of a table that does
   * not fit into memory: a touch then reads one page of 4 kB from the disk, where the system else reads up to some
   * megabytes around it. Reading in order becomes slower, also of what fits into memory. `take` and `prefetch` don't
   * need it. Linux and macOS; ignored elsewhere, and where files are read.
   */
  readonly access?: 'random' | undefined;
}

/** Names of the options. */
export const STORAGE_OPTIONS: OptionNames<StorageOptions> = {
  storage: true,
  guard: true,
  access: true,
};

/**
 * Checks the values of the options.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE`, TypeError `ERR_INVALID_ARG_TYPE`
 */
export function requireStorageOptions({ storage, guard = true, access }: StorageOptions): void {
  if (storage !== undefined && storage !== 'mmap' && storage !== 'read') {
    throw argumentRangeError('storage', "'mmap' or 'read'", storage);
  }
  requireBoolean('guard', guard);
  if (access !== undefined && access !== 'random') {
    throw argumentRangeError('access', "'random'", access);
  }
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
): Work<FileBackedStorage> {
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
  if (options.access === 'random') load.addon.adviseRandom(mapping);
  const storage = new MappedStorage(file, start, load.addon, mapping);
  // Last, and by `fs`, which keeps a list of each worker's descriptors.
  yield* closeOwn(file);
  return storage;
}

/** Maps on this thread in both ways: that reads nothing, and takes less time than a call of the pool. */
function map({ fd, byteLength, path }: OpenedFile, addon: Addon, guard: boolean): Work<Mapping> {
  const mapped = (): Mapping => addon.mapFile(fd, byteLength, guard, path);
  return call({ sync: mapped, async: async () => mapped(), isKept: true });
}

function cutShortMeanwhile({ path }: OpenedFile, cause: unknown): FileChangedError {
  const message = 'the file was truncated while it was opened; open it again';
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
