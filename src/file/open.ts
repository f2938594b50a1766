/** Opens one file: by a path or a descriptor, or its bytes in memory. */

import { constants } from 'node:buffer';
import { argumentTypeError, type OptionNames, requireOptions } from '../errors/arguments.js';
import { isUint8Array, plainBytes } from '../errors/brand-checks.js';
import { requireLittleEndianHost } from '../header/dtype.js';
import { HEAD_BYTE_LENGTH } from '../header/foreign-formats.js';
import {
  type ParseHeaderOptions,
  PREFIX_BYTE_LENGTH,
  parseHeader,
  readHeaderLength,
} from '../header/header.js';
import {
  closeOwn,
  leaseFile,
  type OpenedFile,
  openFileOrFolder,
  openRegularFile,
} from '../platform/io/opened-file.js';
import { locateOpen, type PathOrDescriptor } from '../platform/io/paths.js';
import type { FileBackedStorage } from '../platform/storage/file-backed.js';
import {
  openStorage,
  requireStorageOptions,
  STORAGE_OPTIONS,
  type StorageOptions,
} from '../platform/storage/open.js';
import { MemoryStorage } from '../tensor/storage/memory.js';
import { immediate, runSync, type Work } from '../work/work.js';
import { SafetensorsFile } from './file.js';
import { checkHashes, type HashCheckOptions, requireHashCheckOptions } from './hash-check.js';
import { readFileHeader } from './read-header.js';
import { requireModelFile } from './require-model.js';
import { checkModel, type FileToCheck } from './shards/model-check.js';

/** Options of `parse`. */
export interface ParseOptions {
  /** Longest header accepted, in bytes; 100 000 000 by default, the limit of the reference. */
  readonly maxHeaderByteLength?: number | undefined;
}

/** Options of opening one file. */
export interface FileOptions extends ParseOptions, StorageOptions, HashCheckOptions {}

const PARSE_OPTIONS: OptionNames<ParseOptions> = { maxHeaderByteLength: true };

/** Names of the options. */
export const FILE_OPTIONS: OptionNames<FileOptions> = {
  ...PARSE_OPTIONS,
  ...STORAGE_OPTIONS,
  verify: true,
  expectedHash: true,
};

/** What is known of a file before it is opened. */
interface OpenedAs {
  /** Whether an index lists it. */
  readonly isIndexed?: boolean | undefined;
  /** Whether to accept a file that is not a model, to inspect it. */
  readonly acceptsIncomplete?: boolean | undefined;
}

/**
 * Opens a file; the options may have further ones. Reads and checks the whole header, maps the file, reads none of its
 * data unless `verify` or `expectedHash` asks for that.
 *
 * @throws As `safeOpen`; `SAFETENSORS_NOT_A_REGULAR_FILE` for a folder
 */
export function* openFile(
  path: PathOrDescriptor,
  options: FileOptions,
  known?: OpenedAs,
): Work<SafetensorsFile> {
  requireStorageOptions(options);
  requireHashCheckOptions(options);
  const given = locateOpen(path);
  const file =
    'fd' in given ? yield* leaseFile(given) : yield* openRegularFile(given.location, given.label);
  return yield* ofOpened(file, options, known);
}

/** As above, by the text of a path; undefined for a folder. */
export function* openUnlessFolder(
  path: string,
  options: FileOptions,
  known?: OpenedAs,
): Work<SafetensorsFile | undefined> {
  requireStorageOptions(options);
  requireHashCheckOptions(options);
  const file = yield* openFileOrFolder(path, path);
  return file && (yield* ofOpened(file, options, known));
}

/** Takes over the descriptor, unless it is borrowed. */
function* ofOpened(
  file: OpenedFile,
  options: FileOptions,
  { isIndexed, acceptsIncomplete }: OpenedAs = {},
): Work<SafetensorsFile> {
  const isPlaced = file.borrowed === undefined;
  let storage: FileBackedStorage | undefined;
  try {
    const { path } = file;
    const { header, start } = yield* readFileHeader(file, headerLimitsOf(options, path));
    if (acceptsIncomplete !== true) {
      const known = isPlaced ? path : undefined;
      yield* requireModelFile({ header, file, path: known, label: path, isIndexed });
    }
    yield* checkHashes(file, header, options);
    storage = yield* openStorage(file, start, options);
    // The last place for an abort.
    yield;
    return SafetensorsFile.of(storage, header);
  } catch (error) {
    if (storage === undefined) yield* closeOwn(file);
    else storage.close(false);
    throw error;
  }
}

/** Opens a whole file in memory. Its tensors are views of `bytes`; the header is copied. Throws as `parse`. */
export function fileOf(bytes: Uint8Array, options: ParseOptions): SafetensorsFile {
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
