/** Writes bytes that are put into memory first, piece by piece, and on request reads each piece again. */

import { SafetensorsError } from '../errors/errors.js';
import { allSettled } from '../io/all-settled.js';
import { type WrittenFile, writeViews } from '../io/file-writes.js';
import { readBytesOf, readFully } from '../io/opened-file.js';
import { runAsync } from '../io/steps.js';
import { type PieceMover, Slots } from '../io/transfer.js';
import type { AsyncFill } from '../storage/made.js';

/** A piece and what is read of it again stay in a cache of some megabytes. A multiple of every element's length. */
const PIECE_BYTE_LENGTH = 2 ** 20;

/** Most tensors of a piece. */
const MAX_PARTS = 1024;

/**
 * Shared by all files of the thread. The system runs one write to a file at a time; meanwhile other pieces are
 * filled and compared. Measured with 3 to 5, for 1.6 GB: a fourth saves 7 %, a fifth gains nothing.
 */
const slots = new Slots(4);

/** Bytes of a tensor, or of the header, and their place in the file. */
export interface FilledWrite {
  readonly position: number;
  readonly byteLength: number;
  /** The tensor's name, where that is known. */
  readonly tensor: string | undefined;
  /** Is asked for one piece after the other, before the last one is filled; for none twice. */
  readonly fill: AsyncFill;
}

/** A part of a write: bytes [begin, end) of it, within a piece of the file. */
interface Part {
  readonly write: FilledWrite;
  readonly begin: number;
  readonly end: number;
}

/** What is written by one call. */
interface Piece {
  readonly position: number;
  readonly parts: Part[];
  byteLength: number;
}

/** Cuts each write at the same multiples of its own length, and joins short neighbours. */
function* piecesOf(writes: Iterable<FilledWrite>): Generator<Piece, void, void> {
  let piece: Piece | undefined;
  for (const write of writes) {
    for (let begin = 0; begin < write.byteLength; begin += PIECE_BYTE_LENGTH) {
      const end = Math.min(begin + PIECE_BYTE_LENGTH, write.byteLength);
      const position = write.position + begin;
      if (piece !== undefined && !hasRoom(piece, position, end - begin)) {
        yield piece;
        piece = undefined;
      }
      piece ??= { position, parts: [], byteLength: 0 };
      piece.parts.push({ write, begin, end });
      piece.byteLength += end - begin;
    }
  }
  if (piece !== undefined) yield piece;
}

function hasRoom({ position, parts, byteLength }: Piece, at: number, length: number): boolean {
  return (
    position + byteLength === at &&
    byteLength + length <= PIECE_BYTE_LENGTH &&
    parts.length < MAX_PARTS
  );
}

/** Memory of the length of a piece, used again and again. */
export class PieceBuffers {
  readonly #free: Uint8Array[] = [];

  /** Lends the first bytes of a buffer to the work. */
  async use<Result>(
    byteLength: number,
    work: (bytes: Uint8Array) => Promise<Result>,
  ): Promise<Result> {
    const buffer = this.#free.pop() ?? new Uint8Array(PIECE_BYTE_LENGTH);
    try {
      return await work(buffer.subarray(0, byteLength));
    } finally {
      this.#free.push(buffer);
    }
  }
}

/**
 * Writes what fills the buffers, which are used again for the next pieces. With `verify`, each piece is read
 * again as soon as it is written, and compared while it is still in the buffer: nothing is read or made twice.
 *
 * @param target open for reading, too, when it is verified
 * @throws SafetensorsError `SAFETENSORS_VERIFICATION_FAILED` for the first byte that differs
 * @throws What `fill` throws; errors of the system with the target's path; `signal.reason`
 */
export async function writeFilled(
  target: WrittenFile,
  writes: Iterable<FilledWrite>,
  transfer: PieceMover,
  { buffers, verify }: { readonly buffers: PieceBuffers; readonly verify: boolean },
): Promise<void> {
  await transfer.run(piecesOf(writes), slots, async (piece) => {
    const { position, parts, byteLength } = piece;
    await buffers.use(byteLength, async (bytes) => {
      let at = 0;
      // All are asked for at once, so each tensor's in their order.
      const filled = parts.map(async ({ write, begin, end }) => {
        const part = bytes.subarray(at, at + end - begin);
        at += end - begin;
        await write.fill(part, begin);
      });
      await allSettled(filled);
      await writeViews(target, [bytes], position);
      if (!verify) return;
      await buffers.use(byteLength, async (found) => {
        await runAsync(readFully(readBytesOf(target), found, position, target.path), undefined);
        if (Buffer.compare(found, bytes) !== 0) throw different(target.path, piece, found, bytes);
      });
    });
    return byteLength;
  });
}

function different(
  path: string,
  { parts }: Piece,
  found: Uint8Array,
  expected: Uint8Array,
): SafetensorsError {
  let at = found.findIndex((byte, i) => byte !== expected[i]);
  const part = parts.find(({ begin, end }) => {
    if (at < end - begin) return true;
    at -= end - begin;
    return false;
  }) as Part;
  const { tensor } = part.write;
  const message = `byte ${part.begin + at} of the new file's ${tensor === undefined ? 'header' : 'tensor'} is not what was written`;
  return new SafetensorsError('SAFETENSORS_VERIFICATION_FAILED', message, { path, tensor });
}
