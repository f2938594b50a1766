/** Reads an entry of an archive, inflates it if deflated, and checks its CRC-32. */

import { constants, inflateRawSync } from 'node:zlib';
import { type ErrorContext, quoteName } from '../errors/errors.js';
import { outOfMemory } from '../errors/out-of-memory.js';
import { crc32OfEntry } from './short-crc32.js';
import type { ArchiveEntry, ByteReader } from './zip/archive.js';
import { EntryError } from './zip/entry-error.js';
import { type ArchiveLimits, DEFAULT_LIMITS, MAX_DEFLATE_RATIO } from './zip/limits.js';

/** The least that zlib accepts, and the most: it counts the bytes of a chunk in 32 bits. */
const SHORTEST_CHUNK = 64;
const LONGEST_CHUNK = 2 ** 32 - 1;

/**
 * Returns all bytes of an entry.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`; `SAFETENSORS_INVALID_ARCHIVE` when it inflates
 *   to more or fewer bytes than it declares; `SAFETENSORS_FOREIGN_LIMIT` before a longer one is inflated
 * @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY`
 */
export function readEntry(
  file: ByteReader,
  entry: ArchiveEntry,
  context: ErrorContext,
  limits: ArchiveLimits = {},
): Uint8Array<ArrayBuffer> {
  const stored = file.read(entry.begin, entry.end);
  const bytes = entry.method === 'stored' ? stored : inflate(stored, entry, context, limits);
  if (entry.crc32 !== null) requireCrc32(entry, crc32OfEntry(bytes), context);
  return bytes;
}

/** Throws `SAFETENSORS_CHECKSUM_MISMATCH` unless the CRC-32 of the bytes is that of the entry, if any. */
export function requireCrc32(entry: ArchiveEntry, found: number, context: ErrorContext): void {
  if (entry.crc32 === null || found === entry.crc32) return;
  const message = `entry ${quoteName(entry.name)}: expected the CRC-32 ${entry.crc32}, found ${found}`;
  throw new EntryError('checksum', message, context);
}

/**
 * Checks the inflated length that an entry declares, before memory is allocated for it.
 *
 * @throws FormatError `SAFETENSORS_INVALID_ARCHIVE` when its bytes are too few for that;
 *   `SAFETENSORS_FOREIGN_LIMIT` when it is more than the limit
 */
export function requireInflatable(
  entry: ArchiveEntry,
  limits: ArchiveLimits,
  context: ErrorContext,
): void {
  const { name, byteLength, begin, end } = entry;
  const most = (end - begin) * MAX_DEFLATE_RATIO;
  if (byteLength > most) throw brokenEntry(entry, `bytes for at most ${most}`, context);
  const { maxInflatedByteLength = DEFAULT_LIMITS.maxInflatedByteLength } = limits;
  if (byteLength <= maxInflatedByteLength) return;
  const message = `entry ${quoteName(name)}: expected at most ${maxInflatedByteLength} bytes (limits.maxInflatedByteLength), found ${byteLength}`;
  throw new EntryError('limit', message, context);
}

/** Returns the error for a deflated entry that disagrees with the directory. */
export function brokenEntry(
  { name, begin, end, byteLength }: ArchiveEntry,
  found: string,
  context: ErrorContext,
  cause?: unknown,
): EntryError {
  const expected = `expected ${end - begin} bytes that inflate to ${byteLength}`;
  const message = `entry ${quoteName(name)}: ${expected}, found ${found}`;
  return new EntryError('damage', message, { ...context, cause });
}

function inflate(
  stored: Uint8Array,
  entry: ArchiveEntry,
  context: ErrorContext,
  limits: ArchiveLimits,
): Uint8Array<ArrayBuffer> {
  requireInflatable(entry, limits, context);
  const { byteLength } = entry;
  let inflated: Inflated;
  try {
    // One chunk: joining several would take twice the memory.
    const chunkSize = Math.min(Math.max(byteLength, SHORTEST_CHUNK), LONGEST_CHUNK);
    const maxOutputLength = Math.max(byteLength, 1);
    const options = { info: true, chunkSize, maxOutputLength };
    inflated = inflateRawSync(stored, options) as unknown as Inflated;
  } catch (error) {
    const { code, name } = error as NodeJS.ErrnoException;
    if (code === 'ERR_BUFFER_TOO_LARGE') throw brokenEntry(entry, 'more', context, error);
    if (code === 'Z_DATA_ERROR' || code === 'Z_BUF_ERROR') {
      throw brokenEntry(entry, 'broken ones', context, error);
    }
    // Memory ran out, or the runtime cannot make a buffer of that length.
    if (name === 'RangeError') throw outOfMemory(byteLength, { ...context, cause: error });
    throw error;
  }
  const { buffer, engine } = inflated;
  if (buffer.length !== byteLength) throw brokenEntry(entry, `${buffer.length}`, context);
  if (engine.bytesWritten !== stored.length) {
    throw brokenEntry(entry, `an end after ${engine.bytesWritten}`, context);
  }
  return new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.length);
}

/** The result of zlib with `info`: `bytesWritten` counts the input used. */
interface Inflated {
  readonly buffer: Buffer<ArrayBuffer>;
  readonly engine: { readonly bytesWritten: number };
}

/**
 * Inflates the first bytes of a deflated entry, from the first of its stored bytes.
 *
 * @throws FormatError `SAFETENSORS_FOREIGN_LIMIT` when these are more than `most`
 */
export function inflateStart(
  stored: Uint8Array,
  most: number,
  entry: ArchiveEntry,
  context: ErrorContext,
): Uint8Array {
  try {
    const options = { finishFlush: constants.Z_SYNC_FLUSH, maxOutputLength: most };
    return inflateRawSync(stored, options);
  } catch (cause) {
    const isLong = (cause as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE';
    const expected = isLong
      ? `expected ${stored.length} bytes that inflate to at most ${most}, found more`
      : 'expected deflated bytes, found broken ones';
    const message = `entry ${quoteName(entry.name)}: ${expected}`;
    throw new EntryError(isLong ? 'limit' : 'damage', message, { ...context, cause });
  }
}
