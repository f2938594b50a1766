/** Opens files: by a path or a descriptor, all tensors at once, or bytes in memory. */

import { constants } from 'node:buffer';
import {
  argumentTypeError,
  type OptionNames,
  requireOptions,
  requireSignal,
} from '../errors/arguments.js';
import { isUint8Array, plainBytes } from '../errors/brand-checks.js';
import { SafetensorsError } from '../errors/errors.js';
import { requireLittleEndianHost } from '../header/dtype.js';
import { HEAD_BYTE_LENGTH } from '../header/foreign-formats.js';
import {
  type ParseHeaderOptions,
  PREFIX_BYTE_LENGTH,
  parseHeader,
  readHeaderLength,
} from '../header/header.js';
import { statPath } from '../platform/io/file-calls.js';
import {
  borrowFile,
  closeOwn,
  type OpenedFile,
  openRegularFile,
} from '../platform/io/opened-file.js';
import { locateOpen, type PathOrDescriptor } from '../platform/io/paths.js';
import { hasCode, withAdvice } from '../platform/io/system-errors.js';
import type { FileBackedStorage } from '../platform/storage/file-backed.js';
import {
  openStorage,
  requireStorageOptions,
  STORAGE_OPTIONS,
  type StorageOptions,
} from '../platform/storage/open.js';
import { MemoryStorage } from '../tensor/storage/memory.js';
import type { Tensor } from '../tensor/tensor.js';
import { immediate, runAsync, runSync, type Work } from '../work/work.js';
import { SafetensorsFile } from './file.js';
import { checkHashes, type HashCheckOptions, requireHashCheckOptions } from './hash-check.js';
import { isHubUri, parseHubId } from './hub/ids.js';
import { readFileHeader } from './read-header.js';
import { requireModelFile } from './require-model.js';
import { checkModel, type FileToCheck } from './shards/model-check.js';

/** Options of {@link parse}. */
export interface ParseOptions {
  /** Longest header accepted, in bytes; 100 000 000 by default, the limit of the reference. */
  readonly maxHeaderByteLength?: number | undefined;
}

/** Options of {@link safeOpen} and {@link loadFile}. */
export interface OpenOptions extends ParseOptions, StorageOptions, HashCheckOptions {}

/** Options of {@link safeOpenAsync}. */
export interface OpenAsyncOptions extends OpenOptions {
  /** Aborts the opening: the promise rejects with `signal.reason`, and nothing stays open. */
  readonly signal?: AbortSignal | undefined;
}

const PARSE_OPTIONS: OptionNames<ParseOptions> = { maxHeaderByteLength: true };

/** Names of the options. */
export const OPEN_OPTIONS: OptionNames<OpenOptions> = {
  ...PARSE_OPTIONS,
  ...STORAGE_OPTIONS,
  checksums: true,
  expectedHash: true,
};

const OPEN_ASYNC_OPTIONS: OptionNames<OpenAsyncOptions> = { ...OPEN_OPTIONS, signal: true };

/**
 * Opens a safetensors file: reads and checks the whole header, maps the file, reads none of its
 * data unless `checksums` or `expectedHash` asks for that. Close the handle, or declare it with `using`.
 *
 * A descriptor or `FileHandle` stays the caller's, and is not moved; messages call it `descriptor 3`. A file that is
 * mapped does not need it any more when the call returns. One that is read (`storage: 'read'`, or no mapping) needs it
 * until its last tensor is read.
 *
 * @throws FormatError when the file is not valid safetensors; the message says what it looks like;
 *   `SAFETENSORS_CHECKSUM_MISMATCH` when its bytes do not have the hashes that were asked for;
 *   `SAFETENSORS_DISTRIBUTED_PART`, `SAFETENSORS_DELTA` for a file that is not a model
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_MAPPING_UNAVAILABLE`
 * @throws Error Node's own `ENOENT`, `EACCES`, `ENOMEM` and the like; `EBADF` for a closed descriptor
 *
 * @example
 * ```ts
 * const file = safeOpen('model.safetensors');
 * console.log(file.keys()); // → [ 'embed.weight', 'norm.weight' ]
 * file.close();
 * ```
 */
export function safeOpen(path: PathOrDescriptor, options: OpenOptions = {}): SafetensorsFile {
  requireOptions(options, OPEN_OPTIONS);
  return runSync(openFile(path, options));
}

/**
 * As {@link safeOpen}, without stalling the event loop: the file is opened and read on the thread pool,
 * and a long header is parsed in parts of a few milliseconds. Same results, same errors.
 *
 * After an abort the system call under way finishes; then the promise rejects, and no file stays open.
 *
 * @throws As {@link safeOpen}, by rejecting; `signal.reason` when it was aborted
 *
 * @example
 * ```ts
 * const file = await safeOpenAsync('model.safetensors', { signal: AbortSignal.timeout(60_000) });
 * console.log(file.keys()); // → [ 'embed.weight', 'norm.weight' ]
 * file.close();
 * ```
 */
export async function safeOpenAsync(
  path: PathOrDescriptor,
  options: OpenAsyncOptions = {},
): Promise<SafetensorsFile> {
  requireOptions(options, OPEN_ASYNC_OPTIONS);
  requireSignal(options.signal);
  return await runAsync(openFile(path, options), options.signal);
}

/** What is known of a file before it is opened. */
export interface OpenedAs {
  /** Whether an index lists it. */
  readonly isIndexed?: boolean | undefined;
  /** Whether to accept a file that is not a model, to inspect it. */
  readonly acceptsIncomplete?: boolean | undefined;
}

/** Opens a file; the options may have further ones. */
export function* openFile(
  path: PathOrDescriptor,
  options: OpenOptions,
  { isIndexed, acceptsIncomplete }: OpenedAs = {},
): Work<SafetensorsFile> {
  requireStorageOptions(options);
  requireHashCheckOptions(options);
  const given = locateOpen(path);
  const limits = headerLimitsOf(options, given.label);
  const file =
    'fd' in given ? yield* borrowFile(given) : yield* openHere(given.location, given.label);
  let storage: FileBackedStorage | undefined;
  try {
    const { header, start } = yield* readFileHeader(file, limits);
    if (acceptsIncomplete !== true) {
      const known = 'fd' in given ? undefined : given.label;
      yield* requireModelFile({ header, file, path: known, label: given.label, isIndexed });
    }
    yield* checkHashes(file, header, options);
    storage = yield* openStorage(file, start, options);
    // The last place for an abort.
    yield;
    return SafetensorsFile.of(storage, header, 0, !('fd' in given));
  } catch (error) {
    if (storage === undefined) yield* closeOwn(file);
    else storage.close(false);
    throw error;
  }
}

/** Opens the file; the error names `openCheckpoint` for a path that it opens. */
function* openHere(location: string | Buffer, label: string): Work<OpenedFile> {
  try {
    return yield* openRegularFile(location, label);
  } catch (error) {
    const isFolder =
      hasCode(error, ['SAFETENSORS_NOT_A_REGULAR_FILE']) &&
      (yield* statPath(location)).isDirectory();
    if (isFolder) {
      const message = 'expected a regular file, found a directory, which openCheckpoint opens';
      throw new SafetensorsError('SAFETENSORS_NOT_A_REGULAR_FILE', message, { path: label });
    }
    const isId = isHubUri(label) || parseHubId(label) !== null;
    if (!isId || !hasCode(error, ['ENOENT'])) throw error;
    const advice = `if that is a repository in the Hub's cache, openCheckpoint opens it`;
    throw withAdvice(error as NodeJS.ErrnoException, advice);
  }
}

/**
 * Returns all tensors of a file by name, in file order. Opens the file, takes all tensors, and closes it. Over
 * a mapping nothing is copied: pages are read when they are touched, and the mapping lasts until the
 * last tensor is collected.
 *
 * @throws As {@link safeOpen}, and `SAFETENSORS_TENSOR_TOO_LARGE` for a tensor that does not fit into
 *   one buffer of this runtime: use `safeOpen` and `chunks()` instead; `SAFETENSORS_OUT_OF_MEMORY`
 *   where tensors are read
 *
 * @example
 * ```ts
 * const tensors = loadFile('model.safetensors');
 * console.log(tensors.get('norm.weight')?.data); // → Float32Array(4) [ 0, 0, 0, 0 ]
 * ```
 */
export function loadFile(path: PathOrDescriptor, options: OpenOptions = {}): Map<string, Tensor> {
  const file = safeOpen(path, options);
  try {
    const tensors = file.getTensors();
    // A tensor too long for a buffer throws now, and tensors of a reading storage are read.
    for (const tensor of tensors.values()) tensor.buffer;
    file.close();
    return tensors;
  } catch (error) {
    // Otherwise unused tensors would keep the file open.
    file.close({ detach: true });
    throw error;
  }
}

/**
 * Opens a whole file in memory; the result is as that of {@link safeOpen}. The header is copied.
 * Tensors are views of `bytes`: writing to one changes `bytes`.
 *
 * @throws FormatError when the bytes are not valid safetensors
 *
 * @example
 * ```ts
 * import { readFileSync } from 'node:fs';
 *
 * const file = parse(readFileSync('model.safetensors'));
 * console.log(file.storage, file.size); // → memory 2
 * ```
 */
export function parse(bytes: Uint8Array, options: ParseOptions = {}): SafetensorsFile {
  requireOptions(options, PARSE_OPTIONS);
  if (!isUint8Array(bytes)) throw argumentTypeError('bytes', 'a Uint8Array', bytes);
  const limits = headerLimitsOf(options, undefined);
  // `slice` of a Buffer would not copy. Shared memory is fine.
  const whole = plainBytes(bytes) as Uint8Array<ArrayBuffer>;
  const length = readHeaderLength(whole.subarray(0, HEAD_BYTE_LENGTH), whole.byteLength, limits);
  const json = whole.slice(PREFIX_BYTE_LENGTH, PREFIX_BYTE_LENGTH + length);
  const storage = new MemoryStorage(whole, constants.MAX_LENGTH);
  const header = parseHeader(json, whole.byteLength, limits);
  const read: FileToCheck['read'] = (target, position) =>
    immediate(() => target.set(whole.subarray(position, position + target.length)));
  const unnamed = { name: undefined, path: undefined, isIndexed: false, siblings: null };
  runSync(checkModel({ header, ...unnamed, read }));
  return SafetensorsFile.of(storage, header);
}

function headerLimitsOf(options: ParseOptions, path: string | undefined): ParseHeaderOptions {
  requireLittleEndianHost(path);
  return { maxHeaderByteLength: options.maxHeaderByteLength, path };
}
