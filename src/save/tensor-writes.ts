/** The bytes of tensors into a file, each from where it is: memory, another file, a stream. */

import type { Layout, Placed } from '../format/header-writer.js';
import type { WrittenFile } from '../io/file-copy.js';
import type { Transfer } from '../io/transfer.js';
import { type Write, writeFrom, writePieces, writePiecesSync } from '../io/write-pieces.js';
import type { SourceFiles } from './source-files.js';
import type { FilePayload, MemoryPayload, StreamPayload, TensorEntry } from './tensor-input.js';

/**
 * Pieces of a stream that are shorter are put together to this many bytes: a write costs 100 µs,
 * whatever its length. Measured with pieces of 64 KiB: three times as fast.
 */
const GATHERED_BYTE_LENGTH = 2 ** 20;

/** Bytes that are there. */
type ReadyPayload = MemoryPayload | FilePayload;

/** What of a tensor has to be known to write its bytes. */
type Written<Payload> = Pick<TensorEntry<Payload>, 'byteLength' | 'payload'>;

/** Tensors and their places in the data of a file, in the order of the file. */
type PlacedTensors<Payload> = Iterable<Pick<Placed<Written<Payload>>, 'spec' | 'begin'>>;

/** A file without its data, whose tensors are looked at one by one when it is written. */
export interface WritableLayout extends Pick<Layout<never>, 'header' | 'byteLength'> {
  readonly placed: PlacedTensors<ReadyPayload | StreamPayload>;
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
 * Writes a whole file, header and tensors; its length is what arrives by the transfer, which goes on:
 * several files can be one. `sources` are those of the tensors, to be verified afterwards.
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
 * Writes tensors to their places behind `dataStart`, the position of the data in the file. Streams
 * are opened one at a time, each when all before it is written; when anything fails the one that is
 * open is ended, and those whose turn has not come are left alone.
 *
 * @throws FileChangedError when a source is found cut short; InvalidTensorError for a stream of
 *   another length, and for memory that was taken away; errors of the system with the target's path;
 *   what a stream throws; `signal.reason`
 */
export async function writeTensors(
  target: WrittenFile,
  dataStart: number,
  placed: PlacedTensors<ReadyPayload | StreamPayload>,
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
  for await (const bytes of gathered(pieces, Math.min(byteLength, GATHERED_BYTE_LENGTH))) {
    await writePieces(target, [writeFrom(bytes, end)], transfer.part);
    end += bytes.byteLength;
  }
}

/**
 * The same bytes, with short pieces copied together up to a length. A piece is the stream's again when
 * the next one is asked for, and so has been copied or used before.
 */
async function* gathered(
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

/** As `writeLayout`, on this thread. */
export function writeLayoutSync(
  target: WrittenFile,
  { header, placed }: Layout<TensorEntry<ReadyPayload>>,
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
