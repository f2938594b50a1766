/** Opens a file of another format: reads the description of its tensors into memory, then maps the file. */

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
import {
  openStorage,
  requireStorageOptions,
  type StorageOptions,
} from '../platform/storage/open.js';
import type { Storage } from '../tensor/storage/storage.js';
import { runSync } from '../work/work.js';
import type { ByteReader } from './zip/archive.js';

/** A file with a changed modification time is still the same if it begins with the same bytes. */
const START_BYTE_LENGTH = 64 * 1024;

/**
 * Parses a file: is called with the first 64 KiB and a reader, and returns a function that takes ownership of the
 * storage.
 */
type ParseFile<Result> = (
  start: Uint8Array,
  file: ByteReader,
  context: ErrorContext,
) => (storage: Storage) => Result;

/**
 * Opens a file and parses it. All reads of `parse` are copies, so a change of the file cannot change checked bytes.
 * After an error no file stays open.
 *
 * @throws SafetensorsError as `safeOpen`, but for the format; errors of `parse`
 */
export function openForeign<Result>(
  path: PathLike,
  options: StorageOptions,
  parse: ParseFile<Result>,
): Result {
  requireStorageOptions(options);
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
 * Looks at a file without keeping it open; `look` has the arguments of `parse` in {@link openForeign}.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`; Node's own errors; errors of `look`
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

export function readStart(file: ByteReader): Uint8Array {
  return file.read(0, Math.min(START_BYTE_LENGTH, file.byteLength));
}

/** Positioned reads of an open file. */
export function fileReader(file: OpenedFile): ByteReader {
  return {
    byteLength: file.byteLength,
    read: (begin, end, buffer) => {
      const bytes =
        buffer?.subarray(0, end - begin) ?? allocate(Uint8Array, end - begin, { path: file.path });
      runSync(readFully(readBytesOf(file), bytes, begin, file.path));
      return bytes;
    },
  };
}

/** Returns a reader that copies from bytes in memory, always into new memory. */
export function bytesReader(bytes: Uint8Array): ByteReader {
  return {
    byteLength: bytes.length,
    read: (begin, end) => bytes.slice(begin, end) as Uint8Array<ArrayBuffer>,
  };
}

/** Returns a reader that copies from an open storage, always into new memory. */
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
