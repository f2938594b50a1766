/** Writes tensors to a file, each from where its bytes are: memory, another file or a stream. */

import type { Layout, Placed } from '../format/header-writer.js';
import type { WrittenFile } from '../io/file-writes.js';
import type { Transfer } from '../io/transfer.js';
import { type Write, writeFrom, writePieces, writePiecesSync } from '../io/write-pieces.js';
import type { SourceFiles } from './source-files.js';
import type { Payload, StreamPayload, TensorEntry } from './tensor-input.js';

/**
 * Short pieces of a stream are joined up to this length: a write costs 100 µs, however short it is.
 * Measured with pieces of 64 KiB: three times as fast.
 */
const STREAM_WRITE_BYTE_LENGTH = 2 ** 20;

/** Bytes that need not be produced first. */
type ReadyPayload = Exclude<Payload, StreamPayload>;

/** A tensor's length and bytes, and its place in the data of the file. */
type PlacedTensor<Bytes> = Pick<
  Placed<Pick<TensorEntry<Bytes>, 'byteLength' | 'payload'>>,
  'spec' | 'begin'
>;

/** A file to be written. Its tensors, in the order of the file, may be made one by one. */
export interface WritableLayout extends Pick<Layout<never>, 'header' | 'byteLength'> {
  readonly placed: Iterable<PlacedTensor<Payload>>;
}

function writeOf(
  payload: ReadyPayload,
  position: number,
  byteLength: number,
  sources: SourceFiles,
): Write {
  const source =
    payload.kind === 'memory'
      ? payload.window
      : { file: sources.fileOf(payload), position: payload.position };
  return { position, byteLength, source };
}

/**
 * Writes a whole file, header and tensors. The transfer goes on afterwards, since several files can be
 * one transfer. The caller verifies `sources`, the files of the tensors, when all is written.
 *
 * @throws As {@link writeTensors}
 */
export async function writeLayout(
  target: WrittenFile,
  { header, placed }: WritableLayout,
  sources: SourceFiles,
  transfer: Transfer,
): Promise<void> {
  await writePieces(target, [writeFrom(header, 0)], transfer.part);
  await writeTensors(target, header.byteLength, placed, sources, transfer);
}

/**
 * Writes tensors to their places after `dataStart`, the position of the data in the file. Opens one
 * stream at a time, when all before it is written. An error ends the open stream; those whose turn has
 * not come are left alone.
 *
 * @throws FileChangedError when a source was cut short; InvalidTensorError for a stream of another
 *   length and for memory that was detached; errors of the system with the target's path; what a
 *   stream throws; `signal.reason`
 */
export async function writeTensors(
  target: WrittenFile,
  dataStart: number,
  placed: Iterable<PlacedTensor<Payload>>,
  sources: SourceFiles,
  transfer: Transfer,
): Promise<void> {
  const waiting = placed[Symbol.iterator]();
  let stream: { position: number; byteLength: number; payload: StreamPayload } | undefined;
  function* writesUpToStream(): Generator<Write, void, void> {
    stream = undefined;
    for (let next = waiting.next(); next.done !== true; next = waiting.next()) {
      const { spec, begin } = next.value;
      const { payload, byteLength } = spec;
      const position = dataStart + begin;
      if (payload.kind === 'stream') {
        stream = { position, byteLength, payload };
        return;
      }
      yield writeOf(payload, position, byteLength, sources);
    }
  }
  try {
    do {
      await writePieces(target, writesUpToStream(), transfer.part);
      if (stream !== undefined) {
        await writeStream(target, stream.position, stream.byteLength, stream.payload, transfer);
      }
    } while (stream !== undefined);
  } catch (error) {
    throw sources.explain(error);
  }
}

async function writeStream(
  target: WrittenFile,
  position: number,
  byteLength: number,
  payload: StreamPayload,
  transfer: Transfer,
): Promise<void> {
  const pieces = payload.open(transfer.signal);
  let end = position;
  for await (const bytes of joined(pieces, Math.min(byteLength, STREAM_WRITE_BYTE_LENGTH))) {
    await writePieces(target, [writeFrom(bytes, end)], transfer.part);
    end += bytes.byteLength;
  }
}

/**
 * The same bytes, with short pieces copied into a buffer of that length. Asking for the next piece
 * gives the last one back to its stream, so it must be copied or written by then.
 */
async function* joined(
  pieces: AsyncIterable<Uint8Array>,
  byteLength: number,
): AsyncGenerator<Uint8Array, void, void> {
  const buffer = new Uint8Array(byteLength);
  let filled = 0;
  for await (const piece of pieces) {
    if (filled + piece.byteLength > byteLength) {
      yield buffer.subarray(0, filled);
      filled = 0;
    }
    if (piece.byteLength >= byteLength) {
      yield piece;
    } else {
      buffer.set(piece, filled);
      filled += piece.byteLength;
    }
  }
  yield buffer.subarray(0, filled);
}

/** The same as `writeLayout` on this thread. */
export function writeLayoutSync(
  target: WrittenFile,
  { header, placed }: Layout<TensorEntry>,
  sources: SourceFiles,
): void {
  const writes = placed.map(({ spec, begin }) =>
    writeOf(spec.payload, header.byteLength + begin, spec.byteLength, sources),
  );
  try {
    writePiecesSync(target, [writeFrom(header, 0), ...writes]);
  } catch (error) {
    throw sources.explain(error);
  }
}
