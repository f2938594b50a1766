/** Opens a file of another format: what describes the tensors is read into memory, then the file is mapped. */

import { argumentRangeError, type OptionNames, requireBoolean } from '../errors/arguments.js';
import type { ErrorContext } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';
import { requireLittleEndianHost } from '../header/dtype.js';
import { closeFile } from '../platform/io/file-calls.js';
import {
  type OpenedFile,
  openRegularFile,
  readBytesOf,
  readFully,
} from '../platform/io/opened-file.js';
import { locate, type PathLike } from '../platform/io/paths.js';
import { runSync } from '../platform/io/steps.js';
import { openStorage, type StorageOptions } from '../platform/storage/open.js';
import type { Storage } from '../tensor/storage/storage.js';
import type { ByteReader } from './zip/archive.js';

/** Names of the options that say how a file is reached. */
export const STORAGE_OPTIONS: OptionNames<StorageOptions> = { storage: true, guard: true };

/** A file whose times changed is still the same when it begins with the same bytes. */
const START_BYTE_LENGTH = 64 * 1024;

/**
 * What the start of a file and the rest of it are. `parse` gets the first 64 KiB and a reader, and returns a
 * function that takes ownership of the storage.
 */
export type ParseFile<Result> = (
  start: Uint8Array,
  file: ByteReader,
  context: ErrorContext,
) => (storage: Storage) => Result;

/**
 * Opens a file and parses it. All reads of `parse` are copies: a file that changes meanwhile cannot change
 * what was checked. When it throws, nothing stays open.
 *
 * @throws SafetensorsError as `safeOpen`, but for the format; what `parse` throws
 */
export function openForeign<Result>(
  path: PathLike,
  options: StorageOptions,
  parse: ParseFile<Result>,
): Result {
  const { storage: wanted, guard = true } = options;
  if (wanted !== undefined && wanted !== 'mmap' && wanted !== 'read') {
    throw argumentRangeError('storage', "'mmap' or 'read'", wanted);
  }
  requireBoolean('guard', guard);
  const { location, label } = locate(path);
  requireLittleEndianHost(label);
  const file = runSync(openRegularFile(location, label));
  let storage: Storage | undefined;
  try {
    const reader = fileReader(file);
    const start = readStart(reader);
    const open = parse(start, reader, { path: label });
    storage = runSync(openStorage(file, start, options));
    return open(storage);
  } catch (error) {
    if (storage === undefined) runSync(closeFile(file.fd));
    else storage.close(false);
    throw error;
  }
}

/**
 * Looks at a file that is not kept open; `look` gets what `parse` of {@link openForeign} gets.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`; Node's own errors; what `look` throws
 */
export function lookInto<Result>(
  path: PathLike,
  look: (start: Uint8Array, file: ByteReader) => Result,
): Result {
  const { location, label } = locate(path);
  const file = runSync(openRegularFile(location, label));
  try {
    const reader = fileReader(file);
    return look(readStart(reader), reader);
  } finally {
    runSync(closeFile(file.fd));
  }
}

function readStart(file: ByteReader): Uint8Array {
  return file.read(0, Math.min(START_BYTE_LENGTH, file.byteLength));
}

/** Positioned reads of an open file. */
function fileReader(file: OpenedFile): ByteReader {
  return {
    byteLength: file.byteLength,
    read: (begin, end) => {
      const bytes = allocate(Uint8Array, end - begin, { path: file.path });
      runSync(readFully(readBytesOf(file), bytes, begin, file.path));
      return bytes;
    },
  };
}

/** Copies of what an open storage has. */
export function storageReader(storage: Storage): ByteReader {
  return {
    byteLength: storage.byteLength,
    read: (begin, end) => {
      const bytes = allocate(Uint8Array, end - begin, { path: storage.path });
      if (begin === end) return bytes;
      if (storage.readInto === undefined) bytes.set(storage.window(begin, end));
      else storage.readInto(bytes, begin);
      return bytes;
    },
  };
}
