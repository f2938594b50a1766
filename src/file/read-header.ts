/** The header of a file, by positioned reads. */

import { FileChangedError } from '../errors/errors.js';
import { HEAD_BYTE_LENGTH } from '../format/foreign-formats.js';
import {
  type Header,
  PREFIX_BYTE_LENGTH,
  parseHeader,
  readHeaderLength,
} from '../format/header.js';
import { type OpenedFile, readerOf, readFully } from '../io/opened-file.js';

/** The first bytes of a file: as many as it takes to tell the formats apart, or all. */
export function readHead(file: OpenedFile): Uint8Array {
  const head = new Uint8Array(Math.min(file.byteLength, HEAD_BYTE_LENGTH));
  readFully(readerOf(file), head, 0, file.path);
  return head;
}

/**
 * Reads and checks the header, and nothing else.
 *
 * @throws FormatError; FileChangedError when the file is rewritten meanwhile
 */
export function readFileHeader(file: OpenedFile): Header {
  const { path, byteLength } = file;
  const length = readHeaderLength(readHead(file), byteLength, { path });
  const start = new Uint8Array(PREFIX_BYTE_LENGTH + length);
  readFully(readerOf(file), start, 0, path);
  if (readHeaderLength(start, byteLength, { path }) !== length) {
    throw new FileChangedError('the file was rewritten while it was read', { path });
  }
  return parseHeader(start.subarray(PREFIX_BYTE_LENGTH), byteLength, { path });
}
