/** SHA-256 of bytes in memory on another thread. */

import { HashTasks } from '../../platform/io/hash-tasks.js';
import { type ByteRange, cut } from '../../work/byte-ranges.js';

/** Bytes that are copied for the thread at once, while it hashes those before them. */
const COPIED_PIECE_BYTE_LENGTH = 4 * 2 ** 20;

/** The SHA-256 of bytes in memory, in hexadecimal digits, computed by a separate thread from copies of pieces. */
export async function hashOnThread(bytes: Uint8Array): Promise<string> {
  const memory = new Uint8Array(new SharedArrayBuffer(2 * COPIED_PIECE_BYTE_LENGTH));
  const whole: ByteRange = { begin: 0, end: bytes.length };
  const thread = new HashTasks([{ algorithm: 'sha256', ranges: [whole] }], memory);
  try {
    const pieces = bytes.length === 0 ? [whole] : cut(0, bytes.length, COPIED_PIECE_BYTE_LENGTH);
    let before: Promise<void> = Promise.resolve();
    let place = 0;
    for (const { begin, end } of pieces) {
      memory.set(bytes.subarray(begin, end), place);
      const added = thread.addMemory(place, begin, end);
      // It may fail while the piece before is awaited.
      added.catch(() => {});
      // The other half is free when the piece before was added.
      await before;
      before = added;
      place = COPIED_PIECE_BYTE_LENGTH - place;
    }
    await before;
    return thread.digests()[0]?.[0] as string;
  } finally {
    await thread.end();
  }
}
