/** Compares a file that was written with what its tensors were written from, byte by byte. */

import { SafetensorsError } from '../errors/errors.js';
import type { WrittenFile } from '../io/file-writes.js';
import { cutShort, type ReadFile } from '../io/opened-file.js';
import { readAsync } from '../io/pool-calls.js';
import { type PieceMover, Slots } from '../io/transfer.js';
import type { SourceFiles } from './source-files.js';
import type { WritableLayout } from './tensor-writes.js';

/** Bytes that are compared together: the two buffers of a piece stay in a cache of some megabytes. */
const PIECE_BYTE_LENGTH = 2 ** 20;

/** Shared by all files of the thread: while two pieces are read, a third is compared. */
const slots = new Slots(3);

/** A part of the file, and what it was written from. */
interface Piece {
  /** Of the first byte in the file. */
  readonly position: number;
  readonly byteLength: number;
  /** The tensor's name, where that is known. */
  readonly tensor: string | undefined;
  /** Offset of the first byte in the tensor. */
  readonly offset: number;
  /** Reads what was written, into `buffer` unless it is in memory. */
  expected(buffer: Uint8Array): Uint8Array | Promise<Uint8Array>;
}

function* piecesOf(layout: WritableLayout, sources: SourceFiles): Generator<Piece, void, void> {
  const { header, placed } = layout;
  const { byteLength } = header;
  yield { position: 0, byteLength, tensor: undefined, offset: 0, expected: () => header };
  for (const { spec, begin } of placed) {
    const { payload } = spec;
    if (payload.kind === 'stream') continue;
    const tensor = 'name' in spec ? (spec.name as string) : undefined;
    for (let offset = 0; offset < spec.byteLength; offset += PIECE_BYTE_LENGTH) {
      const end = Math.min(offset + PIECE_BYTE_LENGTH, spec.byteLength);
      const expected = (buffer: Uint8Array): Uint8Array | Promise<Uint8Array> =>
        payload.kind === 'memory'
          ? payload.window(offset, end)
          : readPiece(sources.fileOf(payload), buffer, payload.position + offset);
      yield {
        position: header.byteLength + begin + offset,
        byteLength: end - offset,
        tensor,
        offset,
        expected,
      };
    }
  }
}

/**
 * Reads a file that was written, and compares it with its layout. Tensors that came from streams are left
 * out: their bytes cannot be had twice.
 *
 * @param target open for reading, too
 * @throws SafetensorsError `SAFETENSORS_VERIFICATION_FAILED` for the first byte that differs
 * @throws FileChangedError when a source was cut short; `signal.reason`
 */
export async function verifyLayout(
  target: WrittenFile,
  layout: WritableLayout,
  sources: SourceFiles,
  transfer: PieceMover,
): Promise<void> {
  const free: Uint8Array[] = [];
  const take = (): Uint8Array => free.pop() ?? new Uint8Array(PIECE_BYTE_LENGTH);
  try {
    await transfer.run(piecesOf(layout, sources), slots, async (piece) => {
      const { position, byteLength } = piece;
      const [buffer, other] = [take(), take()];
      const [found, expected] = await Promise.all([
        readPiece(target, fitted(buffer, byteLength), position),
        piece.expected(fitted(other, byteLength)),
      ]);
      if (Buffer.compare(found, expected) !== 0)
        throw different(target.path, piece, found, expected);
      free.push(buffer, other);
      return byteLength;
    });
  } catch (error) {
    throw sources.explain(error);
  }
}

/** Room for so many bytes; headers can be longer than a piece. */
function fitted(buffer: Uint8Array, byteLength: number): Uint8Array {
  return byteLength <= buffer.length ? buffer.subarray(0, byteLength) : new Uint8Array(byteLength);
}

async function readPiece(
  file: ReadFile | WrittenFile,
  target: Uint8Array,
  position: number,
): Promise<Uint8Array> {
  for (let done = 0; done < target.length; ) {
    const { bytesRead } = await readAsync(
      file.fd,
      target,
      done,
      target.length - done,
      position + done,
    );
    if (bytesRead === 0) throw cutShort(file.path, position + target.length, position + done);
    done += bytesRead;
  }
  return target;
}

function different(
  path: string,
  { tensor, offset }: Piece,
  found: Uint8Array,
  expected: Uint8Array,
): SafetensorsError {
  const at = offset + found.findIndex((byte, i) => byte !== expected[i]);
  const message = `byte ${at} of the new file's ${tensor === undefined ? 'header' : 'tensor'} is not what was written`;
  return new SafetensorsError('SAFETENSORS_VERIFICATION_FAILED', message, { path, tensor });
}
