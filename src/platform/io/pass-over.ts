/** Reads whole files whose bytes are wanted once, a few pieces ahead of their use. */

import { type ByteRange, cut } from '../../tensor/pieces.js';
import { PASSING_READ_BYTE_LENGTH, type PassedFile, PassingFile } from './passing-file.js';

/**
 * Reads a whole file through the memory, a multiple of {@link PASSING_READ_BYTE_LENGTH} long unless it holds the file.
 * `use` receives the pieces in order: bytes [begin, end) of the memory, which come from `position` of the file. They
 * are overwritten when its promise has resolved; the next piece does not wait for that.
 */
export async function passOver(
  file: PassedFile,
  memory: Uint8Array,
  use: (begin: number, end: number, position: number) => Promise<void>,
): Promise<void> {
  const count = Math.ceil(file.byteLength / PASSING_READ_BYTE_LENGTH);
  const places = Array.from(cut(0, memory.length, PASSING_READ_BYTE_LENGTH));
  const passing = await PassingFile.open(file);
  const read = async (piece: number): Promise<number> => {
    if (piece >= count) return 0;
    const { begin, end } = places[piece % places.length] as ByteRange;
    return await passing.read(memory.subarray(begin, end), piece * PASSING_READ_BYTE_LENGTH);
  };
  // Of each place: the piece that is being read there, after the one before it was used.
  const reads = places.map((_, piece) => read(piece));
  try {
    for (let piece = 0; piece < count; piece++) {
      const at = piece % places.length;
      const byteLength = await (reads[at] as Promise<number>);
      const { begin } = places[at] as ByteRange;
      const used = use(begin, begin + byteLength, piece * PASSING_READ_BYTE_LENGTH);
      const next = used.then(() => read(piece + places.length));
      // Awaited in its turn; until then Node must not report a rejection as unhandled.
      next.catch(() => {});
      reads[at] = next;
    }
    await Promise.all(reads);
  } finally {
    await Promise.allSettled(reads);
    passing.close();
  }
}
