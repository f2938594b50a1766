/**
 * Reads the header of a file by positioned reads: first its length, then all of it. Refuses a file that is rewritten
 * between the two reads.
 */

import { HEAD_BYTE_LENGTH } from '../header/foreign-formats.js';
import {
  type Header,
  type ParseHeaderOptions,
  PREFIX_BYTE_LENGTH,
  parseStart,
  readHeaderLength,
} from '../header/header.js';
import { readBytesOf, readFully } from '../platform/io/opened-file.js';
import type { ReadFile } from '../platform/io/pool-calls.js';
import type { ByteRange } from '../work/byte-ranges.js';
import type { Work } from '../work/work.js';

/** An open file with a header. */
interface HeaderFile extends ReadFile {
  /** For messages. */
  readonly path: string;
  readonly byteLength: number;
}

/** A checked header, and its bytes. */
interface ReadHeader {
  readonly header: Header;
  /** All bytes before the tensor data. */
  readonly start: Uint8Array;
}

/**
 * Reads and checks the header, and nothing else: of the whole file, or of a part of it that is a file by itself.
 *
 * @throws FormatError with the format that the file looks like; FileChangedError when the file is rewritten meanwhile
 */
export function* readFileHeader(
  file: HeaderFile,
  options: ParseHeaderOptions = { path: file.path },
  { begin, end }: ByteRange = { begin: 0, end: file.byteLength },
): Work<ReadHeader> {
  const byteLength = end - begin;
  const head = new Uint8Array(Math.min(byteLength, HEAD_BYTE_LENGTH));
  yield* readFully(readBytesOf(file), head, begin, file.path);
  const length = readHeaderLength(head, byteLength, options);
  const start = new Uint8Array(PREFIX_BYTE_LENGTH + length);
  yield* readFully(readBytesOf(file), start, begin, file.path);
  return { header: yield* parseStart(start, byteLength, options), start };
}
