/** Writes tensors to a file, from memory, from another file, from a stream, or computed piece by piece. */

import type { Layout, Placed } from '../../header/header-writer.js';
import { fillFrom } from '../../platform/io/acquirable-file.js';
import type { WrittenFile } from '../../platform/io/file-writes.js';
import { type Write, writeFrom, writePieces } from '../../platform/io/write-pieces.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import type { Slots } from '../../work/slots.js';
import type { Transfer } from '../../work/transfer.js';
import type { FilePayload, Payload, StreamPayload, WriteEntry } from '../input/tensor-input.js';
import type { CheckedCopies, CopiedTensor } from './checked-copies.js';
import { isChangedByCaller, type ReadyPayload } from './declared-digests.js';
import { type FilledWrite, PieceBuffers, writeFilled } from './filled-writes.js';
import type { LeasedFiles } from './leased-files.js';
import { memoryFill, verifyingFill } from './verifying-fill.js';
import type { WrittenDigests } from './written-digests.js';

/**
 * Short pieces of a stream are joined up to this length, because even the shortest write costs 100 µs. Measured with
 * pieces of 64 KiB: three times as fast.
 */
const STREAM_WRITE_BYTE_LENGTH = 2 ** 20;

/** Bytes that can fill a buffer, piece by piece. */
type FillingPayload = Exclude<Payload, StreamPayload>;

/** Length and bytes of a tensor, or of several without a name. */
export interface NamedBytes<Bytes> extends Pick<WriteEntry<Bytes>, 'byteLength' | 'payload'> {
  readonly name?: string;
}

/** A tensor's length and bytes, and its place in the data of the file. */
export type PlacedEntry<Bytes> = Pick<Placed<NamedBytes<Bytes>>, 'spec' | 'begin'>;

/** A file to be written. Its tensors, in the order of the file, may be generated one by one. */
export interface WritableLayout extends Pick<Layout<never>, 'header' | 'byteLength' | 'digests'> {
  readonly placed: Iterable<PlacedEntry<Payload>>;
}

function writeOf(
  payload: ReadyPayload,
  position: number,
  byteLength: number,
  sources: LeasedFiles,
): Write {
  const source =
    payload.kind === 'memory'
      ? (begin: number, end: number) => payload.window(begin, end)
      : { file: sources.fileOf(payload), position: payload.position };
  return { position, byteLength, source };
}

/** The ways into a file: as the bytes are, copied and compared by threads, by way of buffers, or as a stream. */
type Way = 'ready' | 'copied' | 'filled' | 'stream';

/** A tensor to be written, and its way. */
interface Step<Bytes = Payload> {
  readonly spec: PlacedEntry<Bytes>['spec'];
  /** Position of the first byte in the file. */
  readonly position: number;
}

/** Returns the function that fills buffers with a tensor's bytes, and compares these with the digest of its file. */
export function fillOf(
  payload: FillingPayload,
  byteLength: number,
  sources: LeasedFiles,
): AsyncFill {
  if (payload.kind === 'computed') return payload.fill;
  const { digest } = payload;
  const fill = plainFillOf(payload, sources);
  if (digest === undefined) return fill;
  const isChanged = (): boolean => isChangedByCaller(payload, byteLength);
  return verifyingFill(fill, { ...digest, byteLength, isChanged });
}

/** The same without comparing a digest. */
export function plainFillOf(payload: ReadyPayload, sources: LeasedFiles): AsyncFill {
  if (payload.kind === 'memory') return memoryFill(payload);
  return payload.checksum?.fill ?? fillFrom(sources.fileOf(payload), payload.position);
}

/** Options of writing a file. */
export interface LayoutWriting {
  /** Whether to read the file back and compare it; false by default. */
  readonly verify?: boolean | undefined;
  /** Receives all bytes of the file in order, as they are written. */
  readonly onBytes?: ((bytes: Uint8Array) => void) | undefined;
  /** Gets the digests of all tensors, which then are not compared with declared ones while their bytes are read. */
  readonly written?: WrittenDigests | undefined;
  /** Copies and compares the tensors of files, when the file is verified; all others are compared on this thread. */
  readonly copies?: CheckedCopies | undefined;
  /**
   * The slots for pieces being filled; the thread's by default. Bytes from a server need separate slots, so that
   * other files do not wait for a slow server.
   */
  readonly slots?: Slots | undefined;
}

/** Writes tensors into one file. */
export class TensorWriter {
  readonly #target: WrittenFile;
  readonly #sources: LeasedFiles;
  readonly #transfer: Transfer;
  readonly #how: LayoutWriting;
  readonly #buffers = new PieceBuffers();
  readonly #onWritten = (position: number, byteLength: number): void =>
    this.#how.written?.add(position, byteLength);

  constructor(
    target: WrittenFile,
    sources: LeasedFiles,
    transfer: Transfer,
    how: LayoutWriting = {},
  ) {
    this.#target = target;
    this.#sources = sources;
    this.#transfer = transfer;
    this.#how = how;
  }

  /** Whether all bytes go by way of buffers. */
  get #isFilled(): boolean {
    const { verify, onBytes } = this.#how;
    return verify === true || onBytes !== undefined;
  }

  /** Writes bytes that are in memory. */
  async writeBytes(bytes: Uint8Array, position: number, tensor?: string): Promise<void> {
    if (!this.#isFilled) {
      await this.#writePieces([writeFrom(bytes, position)]);
      return;
    }
    const { byteLength } = bytes;
    const fill: AsyncFill = (target, begin) =>
      target.set(bytes.subarray(begin, begin + target.length));
    await this.#writeFilled([{ position, byteLength, tensor, fill }]);
  }

  /** Writes all tensors; neighbours with the same way are one piece of work. */
  async write(steps: Iterable<Step>): Promise<void> {
    const waiting = steps[Symbol.iterator]();
    let next = waiting.next();
    const wayOfNext = (): Way | undefined =>
      next.done === true ? undefined : this.#wayOf(next.value);
    function* takeWhile<Bytes>(way: Way): Generator<Step<Bytes>, void, void> {
      while (wayOfNext() === way) {
        yield next.value as Step<Bytes>;
        next = waiting.next();
      }
    }
    for (let way = wayOfNext(); way !== undefined; way = wayOfNext()) {
      if (way === 'ready') await this.#writeReady(takeWhile(way));
      else if (way === 'copied') await this.#writeCopies(takeWhile(way));
      else if (way === 'filled') await this.#writeFilled(this.#filledWrites(takeWhile(way)));
      else for (const step of takeWhile<StreamPayload>(way)) await this.#writeStream(step);
    }
  }

  #wayOf({ spec: { payload } }: Step): Way {
    if (payload.kind === 'stream') return 'stream';
    const isComputed =
      payload.kind === 'computed' || (payload.kind === 'memory' && payload.fill !== undefined);
    const { written, copies } = this.#how;
    if (isComputed || (payload.digest !== undefined && written === undefined)) return 'filled';
    if (payload.kind === 'file' && copies !== undefined) return 'copied';
    const hasChecksum = payload.kind === 'file' && payload.checksum !== undefined;
    return this.#isFilled || hasChecksum ? 'filled' : 'ready';
  }

  async #writeReady(steps: Iterable<Step<ReadyPayload>>): Promise<void> {
    const sources = this.#sources;
    function* writes(): Generator<Write, void, void> {
      for (const { spec, position } of steps) {
        yield writeOf(spec.payload, position, spec.byteLength, sources);
      }
    }
    await this.#writePieces(writes());
  }

  async #writeCopies(steps: Iterable<Step<FilePayload>>): Promise<void> {
    const sources = this.#sources;
    function* tensors(): Generator<CopiedTensor, void, void> {
      for (const { spec, position } of steps) {
        const { name: tensor, byteLength, payload } = spec;
        const { position: sourcePosition, checksum } = payload;
        const source = sources.fileOf(payload);
        yield { tensor, position, byteLength, source, sourcePosition, checksum };
      }
    }
    await this.#how.copies?.write(tensors(), this.#transfer.part, this.#onWritten);
  }

  async #writePieces(writes: Iterable<Write>): Promise<void> {
    await writePieces(this.#target, writes, this.#transfer.part, this.#onWritten);
  }

  *#filledWrites(steps: Iterable<Step<FillingPayload>>): Generator<FilledWrite, void, void> {
    const isComparedLater = this.#how.written !== undefined;
    for (const { spec, position } of steps) {
      const { byteLength, payload, name } = spec;
      const fill =
        isComparedLater && payload.kind !== 'computed'
          ? plainFillOf(payload, this.#sources)
          : fillOf(payload, byteLength, this.#sources);
      yield { position, byteLength, tensor: name, fill };
    }
  }

  async #writeFilled(writes: Iterable<FilledWrite>): Promise<void> {
    const { signal } = this.#transfer;
    const how = { ...this.#how, buffers: this.#buffers, signal, onWritten: this.#onWritten };
    await writeFilled(this.#target, writes, this.#transfer.part, how);
  }

  async #writeStream({ spec, position }: Step<StreamPayload>): Promise<void> {
    const pieces = spec.payload.open(this.#transfer.signal);
    let end = position;
    for await (const bytes of joinedPieces(
      pieces,
      Math.min(spec.byteLength, STREAM_WRITE_BYTE_LENGTH),
    )) {
      await this.writeBytes(bytes, end, spec.name);
      end += bytes.byteLength;
    }
  }
}

/**
 * Writes tensors to their places after `dataStart`, the position of the data in the file. Opens one stream at a time,
 * after everything before it is written. An error ends the open stream; later streams are left untouched.
 *
 * @throws FileChangedError when a source was truncated; InvalidTensorError for a stream of another length and for
 *   detached memory; errors of the system with the target's path; errors of a stream; `signal.reason`
 */
export async function writeTensors(
  target: WrittenFile,
  dataStart: number,
  placed: Iterable<PlacedEntry<Payload>>,
  sources: LeasedFiles,
  transfer: Transfer,
  how: LayoutWriting = {},
): Promise<void> {
  const writer = new TensorWriter(target, sources, transfer, how);
  await writeAll(writer, dataStart, placed, sources);
}

export async function writeAll(
  writer: TensorWriter,
  dataStart: number,
  placed: Iterable<PlacedEntry<Payload>>,
  sources: LeasedFiles,
): Promise<void> {
  function* steps(): Generator<Step, void, void> {
    for (const { spec, begin } of placed) yield { spec, position: dataStart + begin };
  }
  try {
    await writer.write(steps());
  } catch (error) {
    throw sources.explain(error);
  }
}

/**
 * Joins short pieces in a buffer. Requesting the next piece gives the last one back to its stream, so it must be
 * copied or written by then.
 */
async function* joinedPieces(
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
