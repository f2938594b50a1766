/** The header of a remote file: one request in nearly all cases, a second one for a long header. */

import { allocate } from '../errors/out-of-memory.js';
import { HEAD_BYTE_LENGTH } from '../format/foreign-formats.js';
import {
  type Header,
  type ParseHeaderOptions,
  PREFIX_BYTE_LENGTH,
  parseStart,
  readHeaderLength,
} from '../format/header.js';
import { inTurns } from '../json/slices.js';
import type { RemoteFile } from './remote-file.js';

/**
 * Bytes of the first request. Of the 1 000 models that are downloaded most, 97 % have shorter headers;
 * at 10 MB per second these take 10 ms, less than another request would.
 */
export const FIRST_BYTE_LENGTH = 100_000;

/**
 * Reads and checks the header of a remote file, and nothing else. Not one byte behind the first
 * `FIRST_BYTE_LENGTH` or behind the header is asked for.
 *
 * @throws FormatError, which says what the file looks like; whatever the requests reject with
 */
export async function readRemoteHeader(
  file: RemoteFile,
  maxHeaderByteLength: number | undefined,
  signal: AbortSignal,
): Promise<Header> {
  const { path } = file;
  const options: ParseHeaderOptions = { maxHeaderByteLength, path };
  const { bytes, fileByteLength } = await file.readStart(FIRST_BYTE_LENGTH, signal);
  const head = bytes.subarray(0, HEAD_BYTE_LENGTH);
  const length = PREFIX_BYTE_LENGTH + readHeaderLength(head, fileByteLength, options);
  const start = allocate(Uint8Array, length, { path });
  start.set(bytes.subarray(0, length));
  if (length > bytes.length) {
    await file.readInto(start.subarray(bytes.length), bytes.length, { signal });
  }
  return await inTurns(parseStart(start, fileByteLength, options), signal);
}
