/**
 * The header of a file, by positioned reads: first its length, then all of it. A file that is
 * rewritten between the two reads is refused.
 */

import { HEAD_BYTE_LENGTH } from '../format/foreign-formats.js';
import {
  type Header,
  type ParseHeaderOptions,
  PREFIX_BYTE_LENGTH,
  parseStart,
  readHeaderLength,
} from '../format/header.js';
import { type OpenedFile, readerOf, readFully } from '../io/opened-file.js';

/**
 * The number of bytes before the tensor data: the prefix and the header that it announces.
 *
 * @throws FormatError as `readHeaderLength`; the message says what the file looks like
 */
export function readDataStart(file: OpenedFile, options: ParseHeaderOptions): number {
  const head = new Uint8Array(Math.min(file.byteLength, HEAD_BYTE_LENGTH));
  readFully(readerOf(file), head, 0, file.path);
  return PREFIX_BYTE_LENGTH + readHeaderLength(head, file.byteLength, options);
}

/**
 * Reads and checks the header, and nothing else.
 *
 * @throws FormatError; FileChangedError when the file is rewritten meanwhile
 */
export function readFileHeader(file: OpenedFile): Header {
  const options = { path: file.path };
  const start = new Uint8Array(readDataStart(file, options));
  readFully(readerOf(file), start, 0, file.path);
  return parseStart(start, file.byteLength, options);
}
