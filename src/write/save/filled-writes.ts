/** Writes bytes by way of buffers, piece by piece; with `verify`, reads each piece back and compares it. */

import { SafetensorsError } from '../../errors/errors.js';
import { type WrittenFile, writeViews } from '../../platform/io/file-writes.js';
import { readBytesOf, readFully } from '../../platform/io/opened-file.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import { allSettled } from '../../work/all-settled.js';
import {
  CACHED_BYTE_LENGTH,
  type MergeLimits,
  merge,
  type Part,
  type Piece,
} from '../../work/byte-ranges.js';
import { Slots } from '../../work/slots.js';
import type { PieceMover } from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';

/** Most tensors of a piece. */
const MAX_PARTS = 1024;

/**
 * Slots shared by all files of the thread. The system runs one write to a file at a time; meanwhile other pieces are
 * filled and compared. Measured with 3 to 5 for 1.6 GB: the fourth saves 7 %, the fifth gains nothing.
 */
const threadSlots = new Slots(4);

/** Bytes of a tensor, or of the header, and their place in the file. */
export interface FilledWrite {
  readonly position: number;
  readonly byteLength: number;
  /** The tensor's name, if known. */
  readonly tensor: string | undefined;
  /** Called for the pieces in order, each once, without waiting for the one before. */
  readonly fill: AsyncFill;
}

/** The limits of a piece: long writes are cut at fixed multiples, short neighbours are joined. */
const PIECE_LIMITS: MergeLimits<FilledWrite> = {
  maxByteLength: CACHED_BYTE_LENGTH,
  maxParts: MAX_PARTS,
  unitOf: () => CACHED_BYTE_LENGTH,
};

/** Options of a write by pieces. */
interface FilledWriting {
  readonly buffers: PieceBuffers;
  readonly verify?: boolean | undefined;
  /** Receives the bytes of all writes in order, each piece when it is written. */
  readonly onBytes?: ((bytes: Uint8Array) => void) | undefined;
  /** Is called for each piece once it is written, in any order. */
  readonly onWritten?: ((position: number, byteLength: number) => void) | undefined;
  /** The slots for pieces under way; the thread's by default. */
  readonly slots?: Slots | undefined;
  /** That of the transfer: ends fills that take long. */
  readonly signal?: AbortSignal | undefined;
}

/** Reused buffers of the length of a piece. */
export class PieceBuffers {
  readonly #free: Uint8Array[] = [];

  /** Lends the first bytes of a buffer to the work. */
  async use<Result>(
    byteLength: number,
    work: (bytes: Uint8Array) => Promise<Result>,
  ): Promise<Result> {
    const buffer = this.#free.pop() ?? new Uint8Array(CACHED_BYTE_LENGTH);
    try {
      return await work(buffer.subarray(0, byteLength));
    } finally {
      this.#free.push(buffer);
    }
  }
}

/**
 * Fills buffers, writes them, and reuses them for the next pieces. With `verify`, each piece is read back as soon as
 * it is written and compared while it is still in its buffer: no byte is read or computed twice.
 *
 * @param target open for reading, too, when it is verified
 * @throws SafetensorsError `SAFETENSORS_VERIFICATION_FAILED` for the first byte that differs
 * @throws Errors of `fill`; errors of the system with the target's path; `signal.reason`
 */
export async function writeFilled(
  target: WrittenFile,
  writes: Iterable<FilledWrite>,
  transfer: PieceMover,
  { buffers, verify = false, onBytes, onWritten, slots = threadSlots, signal }: FilledWriting,
): Promise<void> {
  // Pieces begin in order, but may be filled in any order.
  let heard = Promise.resolve();
  await transfer.run(merge(nonEmpty(writes), PIECE_LIMITS), slots, async (piece) => {
    const { position, parts, byteLength } = piece;
    await buffers.use(byteLength, async (bytes) => {
      let at = 0;
      // Called for all parts at once, so for each tensor's in order.
      const filled = parts.map(async ({ range: write, begin, end }) => {
        const part = bytes.subarray(at, at + end - begin);
        at += end - begin;
        await write.fill(part, begin, signal);
      });
      const written = allSettled(filled).then(() => writeViews(target, [bytes], position));
      if (onBytes === undefined) await written;
      else {
        heard = allSettled([heard, written]).then(() => onBytes(bytes));
        await heard;
      }
      onWritten?.(position, byteLength);
      if (!verify) return;
      await buffers.use(byteLength, async (found) => {
        await runAsync(readFully(readBytesOf(target), found, position, target.path), undefined);
        if (Buffer.compare(found, bytes) !== 0) throw different(target.path, piece, found, bytes);
      });
    });
    return byteLength;
  });
}

function* nonEmpty(writes: Iterable<FilledWrite>): Generator<FilledWrite, void, void> {
  for (const write of writes) if (write.byteLength > 0) yield write;
}

function different(
  path: string,
  { parts }: Piece<FilledWrite>,
  found: Uint8Array,
  expected: Uint8Array,
): SafetensorsError {
  let at = found.findIndex((byte, i) => byte !== expected[i]);
  const part = parts.find(({ begin, end }) => {
    if (at < end - begin) return true;
    at -= end - begin;
    return false;
  }) as Part<FilledWrite>;
  return differentByte(path, part.range.tensor, part.begin + at);
}

/** The error for a byte of a tensor, or without a name of the header, that is not the written one. */
export function differentByte(
  path: string,
  tensor: string | undefined,
  byte: number,
): SafetensorsError {
  const part = tensor === undefined ? 'header' : 'tensor';
  const message = `byte ${byte} of the new file's ${part} differs from the written byte`;
  return new SafetensorsError('SAFETENSORS_VERIFICATION_FAILED', message, { path, tensor });
}
