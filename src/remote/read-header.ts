/** Reads the header of a remote file: by one request, or two for a long header. */

import { allocate } from '../errors/out-of-memory.js';
import type { PlacedContents } from '../foreign/tensors/placed-contents.js';
import { HEAD_BYTE_LENGTH } from '../header/foreign-formats.js';
import {
  type Header,
  type ParseHeaderOptions,
  PREFIX_BYTE_LENGTH,
  parseStart,
  readHeaderLength,
} from '../header/header.js';
import { runAsync } from '../work/work.js';
import type { FileStart, RemoteFile } from './remote-file.js';

/**
 * Bytes of the first request. Of the 1 000 most downloaded models 97 % have shorter headers; at 10 MB per second
 * these bytes take 10 ms, less than another request.
 */
export const FIRST_BYTE_LENGTH = 100_000;

/** The contents of a remote file. */
export type RemoteContents = Header | PlacedContents;

/** A fetched header, unparsed. */
export interface FetchedHeader {
  /** All bytes before the tensor data. */
  readonly start: Uint8Array;
  readonly fileByteLength: number;
  readonly options: ParseHeaderOptions;
}

/**
 * Fetches the header of a remote file and nothing else: requests no byte after both the header and the first
 * `FIRST_BYTE_LENGTH`.
 *
 * @param onRedirected as for `RemoteFile.readStart`
 * @throws FormatError for an impossible length; the errors of the requests
 */
export async function fetchHeader(
  file: RemoteFile,
  maxHeaderByteLength: number | undefined,
  signal: AbortSignal,
  onRedirected?: () => void,
): Promise<FetchedHeader> {
  const start = await file.readStart(FIRST_BYTE_LENGTH, signal, onRedirected);
  return await fetchRestOfHeader(file, start, maxHeaderByteLength, signal);
}

/** As {@link fetchHeader}, with the first bytes at hand. */
export async function fetchRestOfHeader(
  file: RemoteFile,
  { bytes, fileByteLength }: FileStart,
  maxHeaderByteLength: number | undefined,
  signal: AbortSignal,
): Promise<FetchedHeader> {
  const { path } = file;
  const options: ParseHeaderOptions = { maxHeaderByteLength, path };
  const head = bytes.subarray(0, HEAD_BYTE_LENGTH);
  const length = PREFIX_BYTE_LENGTH + readHeaderLength(head, fileByteLength, options);
  const start = allocate(Uint8Array, length, { path });
  start.set(bytes.subarray(0, length));
  if (length > bytes.length) {
    await file.readInto(start.subarray(bytes.length), bytes.length, { signal });
  }
  return { start, fileByteLength, options };
}

/**
 * Parses and checks a fetched header.
 *
 * @throws FormatError, which names a foreign format
 */
export async function parseFetched(
  { start, fileByteLength, options }: FetchedHeader,
  signal: AbortSignal,
): Promise<Header> {
  return await runAsync(parseStart(start, fileByteLength, options), signal);
}

/** Fetches and parses the header of a remote file. */
export async function readRemoteHeader(
  file: RemoteFile,
  maxHeaderByteLength: number | undefined,
  signal: AbortSignal,
): Promise<Header> {
  return await parseFetched(await fetchHeader(file, maxHeaderByteLength, signal), signal);
}
