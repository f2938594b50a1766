/** Ranges of a file to be written, from memory and from other files; on this thread, one after the other. */

import { argumentRangeError } from '../../errors/arguments.js';
import { cut, type FileRange } from '../../tensor/pieces.js';
import type { WrittenFile } from './file-writes.js';
import { writeViewSync } from './file-writes-sync.js';
import { readBytesOf, readFully } from './opened-file.js';
import type { ReadFile } from './pool-calls.js';
import { runSync } from './steps.js';

/**
 * Bytes per write call. Measured with 1 to 16 MiB: from 4 MiB on, longer calls are not faster, and an
 * abort waits for the call.
 */
export const WRITE_BYTE_LENGTH: number = 8 * 2 ** 20;

/** Bytes of another file, from `position` on. */
interface FileSource {
  readonly file: ReadFile;
  readonly position: number;
}

/**
 * Returns the bytes [begin, end) of a range right before they are written. Their memory must stay until then.
 */
type MemorySource = (begin: number, end: number) => Uint8Array;

/** A range of the new file, and the source of its bytes. */
export interface Write extends FileRange {
  readonly source: MemorySource | FileSource;
}

/** The write of bytes in memory. */
export function writeFrom(bytes: Uint8Array, position: number): Write {
  const { byteLength } = bytes;
  return { position, byteLength, source: (begin, end) => bytes.subarray(begin, end) };
}

/** Too few bytes, such as those of a buffer detached meanwhile, would leave a hole in the file. */
export function takeBytes(source: MemorySource, begin: number, end: number): Uint8Array {
  const view = source(begin, end);
  if (view.byteLength === end - begin) return view;
  throw argumentRangeError('the length of the bytes to write', `${end - begin}`, view.byteLength);
}

/**
 * Writes the ranges on this thread, one after the other, those of files through a buffer.
 *
 * @throws As `writePieces`
 */
export function writePiecesSync(target: WrittenFile, writes: Iterable<Write>): void {
  for (const { position, byteLength, source } of writes) {
    const memory = typeof source === 'function' ? source : throughBuffer(source, byteLength);
    for (const { begin, end } of cut(0, byteLength, WRITE_BYTE_LENGTH)) {
      writeViewSync(target, takeBytes(memory, begin, end), position + begin);
    }
  }
}

/** Reads a file as if it were memory. Every call overwrites the bytes of the last one. */
function throughBuffer({ file, position }: FileSource, byteLength: number): MemorySource {
  const buffer = new Uint8Array(Math.min(byteLength, WRITE_BYTE_LENGTH));
  return (begin, end) => {
    const view = buffer.subarray(0, end - begin);
    runSync(readFully(readBytesOf(file), view, position + begin, file.path));
    return view;
  };
}
