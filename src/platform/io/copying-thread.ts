/** Copies bytes between files and checks every one of them, on a separate thread. */

import { BLOCK_BYTE_LENGTH, FileThread } from './file-thread.js';
import type { ReadFile } from './pool-calls.js';

/** Bytes of a file, and their position in the copy. */
export interface CheckedCopy {
  readonly file: ReadFile;
  readonly position: number;
  readonly byteLength: number;
  readonly targetPosition: number;
}

/** The result of copying. */
export interface CopyResult {
  /** The CRC-32 of the bytes of each copy, up to the first difference. */
  readonly crc32s: readonly number[];
  /** The first byte that was read back as another one, and the copy with it. */
  readonly difference?: { readonly copy: number; readonly byte: number };
}

/**
 * The program of the thread, after that of every thread. A block is read, written, read back and compared at once,
 * while both are in the cache of the thread's core.
 */
const PROGRAM = `
const { writeSync } = require('node:fs');
const { crc32 } = require('node:zlib');
const expected = new Uint8Array(${BLOCK_BYTE_LENGTH});
const found = new Uint8Array(${BLOCK_BYTE_LENGTH});
function writeBlock(fd, bytes, position) {
  for (let done = 0; done < bytes.length; ) {
    try {
      const count = writeSync(fd, bytes, done, bytes.length - done, position + done);
      if (count === 0) throw Object.assign(new Error('EIO'), { code: 'EIO', errno: -5, syscall: 'write' });
      done += count;
    } catch (error) {
      throw Object.assign(error, { fd });
    }
  }
}
function handle({ fd, copies }) {
  const crc32s = [];
  for (const [copy, { source, position, byteLength, targetPosition }] of copies.entries()) {
    let checksum = 0;
    for (let done = 0; done < byteLength; done += expected.length) {
      const end = Math.min(done + expected.length, byteLength);
      const bytes = readBlock(source, expected, position + done, position + end);
      checksum = crc32(bytes, checksum);
      writeBlock(fd, bytes, targetPosition + done);
      const written = readBlock(fd, found, targetPosition + done, targetPosition + end);
      if (Buffer.compare(bytes, written) !== 0) {
        const byte = done + written.findIndex((value, i) => value !== bytes[i]);
        return { crc32s, difference: { copy, byte } };
      }
    }
    crc32s.push(checksum);
  }
  return { crc32s };
}
`;

/** The thread. `end` ends it. */
export class CopyingThread {
  readonly #thread = new FileThread(PROGRAM);

  /**
   * Copies bytes into the target, which is open for reading, too, and reads them back.
   *
   * @throws As `FileThread.ask`
   */
  async copy(target: ReadFile, copies: readonly CheckedCopy[]): Promise<CopyResult> {
    const messages = copies.map(({ file, ...copy }) => ({ ...copy, source: file.fd }));
    const files = [target, ...copies.map(({ file }) => file)];
    return (await this.#thread.ask(files, { fd: target.fd, copies: messages })) as CopyResult;
  }

  /** Ends the thread; it uses no descriptors afterwards. */
  async end(): Promise<void> {
    await this.#thread.end();
  }
}
