/** Writes tensors to a file, from memory, from another file, from a stream, or computed piece by piece. */

import { createHash } from 'node:crypto';
import type { Layout, Placed } from '../../header/header-writer.js';
import { digestMismatch } from '../../header/tensor-digests.js';
import { fillFrom, readAcquired } from '../../platform/io/acquirable-file.js';
import { closeFile } from '../../platform/io/file-calls.js';
import { type WrittenFile, writeViews } from '../../platform/io/file-writes.js';
import { openRegularFile, readBytesOf, readFully } from '../../platform/io/opened-file.js';
import { RangeHashes } from '../../platform/io/range-hashes.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { type Write, writeFrom, writePieces } from '../../platform/io/write-pieces.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import { CACHED_BYTE_LENGTH, cut } from '../../work/byte-ranges.js';
import type { Slots } from '../../work/slots.js';
import type { Transfer } from '../../work/transfer.js';
import { runSync } from '../../work/work.js';
import type { ComputedPayload, Payload, StreamPayload, WriteEntry } from '../input/tensor-input.js';
import { type FilledWrite, PieceBuffers, writeFilled } from './filled-writes.js';
import type { LeasedFiles } from './leased-files.js';
import { memoryFill, verifyingFill } from './verifying-fill.js';

/**
 * Short pieces of a stream are joined up to this length, because even the shortest write costs 100 µs. Measured with
 * pieces of 64 KiB: three times as fast.
 */
const STREAM_WRITE_BYTE_LENGTH = 2 ** 20;

/** Bytes that exist, in memory or in a file. */
type ReadyPayload = Exclude<Payload, ComputedPayload | StreamPayload>;

/** Bytes that can fill a buffer, piece by piece. */
type FillingPayload = Exclude<Payload, StreamPayload>;

/** Length and bytes of a tensor, or of several without a name. */
interface NamedBytes<Bytes> extends Pick<WriteEntry<Bytes>, 'byteLength' | 'payload'> {
  readonly name?: string;
}

/** A tensor's length and bytes, and its place in the data of the file. */
type PlacedEntry<Bytes> = Pick<Placed<NamedBytes<Bytes>>, 'spec' | 'begin'>;

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

/** The three ways into a file: as the bytes are, by way of buffers, or as a stream. */
type Way = 'ready' | 'filled' | 'stream';

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

function plainFillOf(payload: ReadyPayload, sources: LeasedFiles): AsyncFill {
  if (payload.kind === 'memory') return memoryFill(payload);
  return fillFrom(sources.fileOf(payload), payload.position);
}

/** Options of writing a file. */
interface LayoutWriting {
  /** Whether to read the file back and compare it; false by default. */
  readonly verify?: boolean | undefined;
  /** Receives all bytes of the file in order, as they are written. */
  readonly onBytes?: ((bytes: Uint8Array) => void) | undefined;
  /**
   * The slots for pieces being filled; the thread's by default. Bytes from a server need separate slots, so that
   * other files do not wait for a slow server.
   */
  readonly slots?: Slots | undefined;
}

/** Writes tensors into one file. */
class TensorWriter {
  readonly #target: WrittenFile;
  readonly #sources: LeasedFiles;
  readonly #transfer: Transfer;
  readonly #how: LayoutWriting;
  readonly #buffers = new PieceBuffers();

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
      await writePieces(this.#target, [writeFrom(bytes, position)], this.#transfer.part);
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
      else if (way === 'filled') await this.#writeFilled(this.#filledWrites(takeWhile(way)));
      else for (const step of takeWhile<StreamPayload>(way)) await this.#writeStream(step);
    }
  }

  #wayOf({ spec: { payload } }: Step): Way {
    if (payload.kind === 'stream') return 'stream';
    const isComputed =
      payload.kind === 'computed' || (payload.kind === 'memory' && payload.fill !== undefined);
    return isComputed || payload.digest !== undefined || this.#isFilled ? 'filled' : 'ready';
  }

  async #writeReady(steps: Iterable<Step<ReadyPayload>>): Promise<void> {
    const sources = this.#sources;
    function* writes(): Generator<Write, void, void> {
      for (const { spec, position } of steps) {
        yield writeOf(spec.payload, position, spec.byteLength, sources);
      }
    }
    await writePieces(this.#target, writes(), this.#transfer.part);
  }

  *#filledWrites(steps: Iterable<Step<FillingPayload>>): Generator<FilledWrite, void, void> {
    for (const { spec, position } of steps) {
      const { byteLength, payload, name } = spec;
      yield {
        position,
        byteLength,
        tensor: name,
        fill: fillOf(payload, byteLength, this.#sources),
      };
    }
  }

  async #writeFilled(writes: Iterable<FilledWrite>): Promise<void> {
    const how = { ...this.#how, buffers: this.#buffers, signal: this.#transfer.signal };
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
 * Writes a whole file, header and tensors, last the digests of the tensors if it has them; with `verify` it reads
 * header and tensors back and compares them. Does not end the transfer, which can span several files. The caller
 * verifies `sources`, the files of the tensors, after the last write.
 *
 * @throws As {@link writeTensors}; `SAFETENSORS_VERIFICATION_FAILED`
 */
export async function writeLayout(
  target: WrittenFile,
  { header, placed, digests }: WritableLayout,
  sources: LeasedFiles,
  transfer: Transfer,
  how: LayoutWriting = {},
): Promise<void> {
  const hashes = new RangeHashes(digests?.ranges ?? []);
  const onBytes = (bytes: Uint8Array): void => {
    hashes.add(bytes);
    how.onBytes?.(bytes);
  };
  const hashing = digests === undefined ? how : { ...how, onBytes };
  const writer = new TensorWriter(target, sources, transfer, hashing);
  await writer.writeBytes(header, 0);
  await writeAll(writer, header.byteLength, placed, sources);
  if (digests !== undefined) await writeViews(target, [hashes.text()], digests.position);
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

async function writeAll(
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

/** Returns a function that returns bytes of a tensor, valid until its next call. */
function syncReader(
  sources: LeasedFiles,
): (payload: ReadyPayload, begin: number, end: number) => Uint8Array {
  let buffer: Uint8Array | undefined;
  return (payload, begin, end) => {
    if (payload.kind === 'memory') return payload.window(begin, end);
    buffer ??= new Uint8Array(CACHED_BYTE_LENGTH);
    const bytes = buffer.subarray(0, end - begin);
    const file = sources.fileOf(payload);
    runSync(readFully(readAcquired(file), bytes, payload.position + begin, file.path));
    return bytes;
  };
}

/**
 * Compares tensors with the digests of their files, on this thread.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`
 */
export function compareSync(
  entries: readonly Pick<WriteEntry, 'byteLength' | 'payload'>[],
  sources: LeasedFiles,
): void {
  const bytesOf = syncReader(sources);
  for (const { byteLength, payload } of entries) {
    const { digest } = payload;
    if (digest === undefined) continue;
    const hash = createHash('sha256');
    for (const { begin, end } of cut(0, byteLength, CACHED_BYTE_LENGTH)) {
      hash.update(bytesOf(payload, begin, end));
    }
    const found = hash.digest('hex');
    if (found !== digest.hex && !isChangedByCaller(payload, byteLength)) {
      throw digestMismatch(digest.hex, found, digest.context);
    }
  }
}

/**
 * Whether memory that the caller can write to has other bytes than its file. Without the file, no one can tell damage
 * from a change.
 */
function isChangedByCaller(payload: ReadyPayload, byteLength: number): boolean {
  const { digest } = payload;
  const position = digest?.writableFrom;
  const path = digest?.context.path;
  if (payload.kind !== 'memory' || position === undefined || path === undefined) return false;
  try {
    const file = runSync(openRegularFile(path, path));
    try {
      const read = readBytesOf(file);
      const buffer = new Uint8Array(Math.min(byteLength, CACHED_BYTE_LENGTH));
      for (const { begin, end } of cut(0, byteLength, CACHED_BYTE_LENGTH)) {
        const bytes = buffer.subarray(0, end - begin);
        runSync(readFully(read, bytes, position + begin, path));
        if (Buffer.compare(bytes, payload.window(begin, end)) !== 0) return true;
      }
      return false;
    } finally {
      runSync(closeFile(file.fd));
    }
  } catch (error) {
    if (hasCode(error, ['EMFILE', 'ENFILE', 'ENOMEM'])) throw error;
    return true;
  }
}
