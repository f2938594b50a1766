/** Compares the bytes of tensors with the digests that their files declare. */

import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { digestMismatch } from '../../header/tensor-digests.js';
import { readAcquired } from '../../platform/io/acquirable-file.js';
import { closeFile } from '../../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../../platform/io/opened-file.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { CACHED_BYTE_LENGTH, cut } from '../../work/byte-ranges.js';
import { runSync } from '../../work/work.js';
import type { FilePayload, MemoryPayload, WriteEntry } from '../input/tensor-input.js';
import type { LeasedFiles } from './leased-files.js';

/** Bytes that exist, in memory or in a file. */
export type ReadyPayload = MemoryPayload | FilePayload;

/**
 * Throws for a digest other than the declared one, unless the caller has changed the bytes.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`
 */
export function requireDigest(payload: ReadyPayload, found: string, byteLength: number): void {
  const { digest } = payload;
  if (digest === undefined || found === digest.hex || isChangedByCaller(payload, byteLength))
    return;
  throw digestMismatch(digest.hex, found, digest.context);
}

/** Returns a function that returns bytes of a tensor, valid until its next call. */
function syncReader(
  sources: LeasedFiles,
): (payload: ReadyPayload, begin: number, end: number) => Uint8Array {
  let buffer: Uint8Array | undefined;
  return (payload, begin, end) => {
    if (payload.kind === 'memory') return payload.window(begin, end);
    buffer ??= new Uint8Array(CACHED_BYTE_LENGTH);
    const bytes = buffer.subarray(0, end - begin);
    const file = sources.fileOf(payload);
    runSync(readFully(readAcquired(file), bytes, payload.position + begin, file.path));
    return bytes;
  };
}

/**
 * Compares tensors with the digests of their files, on this thread.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`
 */
export function compareSync(
  entries: readonly Pick<WriteEntry, 'byteLength' | 'payload'>[],
  sources: LeasedFiles,
): void {
  const bytesOf = syncReader(sources);
  for (const { byteLength, payload } of entries) {
    const { digest } = payload;
    if (digest === undefined) continue;
    const hash = createHash('sha256');
    for (const { begin, end } of cut(0, byteLength, CACHED_BYTE_LENGTH)) {
      hash.update(bytesOf(payload, begin, end));
    }
    requireDigest(payload, hash.digest('hex'), byteLength);
  }
}

/**
 * Whether memory that the caller can write to has other bytes than its file. Without the file, no one can tell damage
 * from a change.
 */
export function isChangedByCaller(payload: ReadyPayload, byteLength: number): boolean {
  const { digest } = payload;
  const position = digest?.writableFrom;
  const path = digest?.context.path;
  if (payload.kind !== 'memory' || position === undefined || path === undefined) return false;
  try {
    const file = runSync(openRegularFile(path, path));
    try {
      const read = readBytesOf(file);
      const buffer = new Uint8Array(Math.min(byteLength, CACHED_BYTE_LENGTH));
      for (const { begin, end } of cut(0, byteLength, CACHED_BYTE_LENGTH)) {
        const bytes = buffer.subarray(0, end - begin);
        runSync(readFully(read, bytes, position + begin, path));
        if (Buffer.compare(bytes, payload.window(begin, end)) !== 0) return true;
      }
      return false;
    } finally {
      runSync(closeFile(file.fd));
    }
  } catch (error) {
    if (hasCode(error, ['EMFILE', 'ENFILE', 'ENOMEM'])) throw error;
    return true;
  }
}
