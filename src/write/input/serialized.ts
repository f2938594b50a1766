/** The bytes of a whole file, all at once or one piece after the other, wherever the tensors' bytes are. */

import { argumentRangeError } from '../../errors/arguments.js';
import { allocate } from '../../errors/out-of-memory.js';
import { type HeaderOptions, type Layout, layOut } from '../../header/header-writer.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';
import { cut } from '../../work/byte-ranges.js';
import type {
  FilePayload,
  MemoryPayload,
  Payload,
  StreamPayload,
  WriteEntry,
} from './tensor-input.js';

/** Bytes of a piece: a multiple of every element's length. */
const PIECE_BYTE_LENGTH = 2 ** 20;

/** Files whose descriptors are leased while a result is computed. */
export interface LeasedSources<Fill> {
  /** Bytes of a file, and bytes in memory that have a digest to compare. */
  fill(payload: FilePayload | MemoryPayload, byteLength: number): Fill;
  /** Throws when a file or memory has changed meanwhile. */
  verify(): void;
  end(): void;
}

/**
 * Writes the tensors into one buffer.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for a result of more than `maxByteLength` bytes; as `layOut` and `lease`
 */
export function serializeEntries(
  entries: readonly WriteEntry[],
  options: HeaderOptions,
  maxByteLength: number,
  lease: (entries: readonly WriteEntry[]) => LeasedSources<(target: Uint8Array) => void>,
): Uint8Array<ArrayBuffer> {
  const { header, placed, byteLength } = layOut(entries, options);
  if (byteLength > maxByteLength) {
    const expected = `at most ${maxByteLength} bytes, as one buffer of this runtime holds`;
    throw argumentRangeError('the result', expected, byteLength);
  }
  const sources = lease(entries);
  try {
    const result = allocate(Uint8Array, byteLength, {});
    result.set(header);
    const data = result.subarray(header.byteLength);
    for (const { spec, begin, end } of placed) {
      const { payload } = spec;
      const isPlain = payload.kind === 'memory' && payload.digest === undefined;
      if (isPlain) data.set(payload.window(0, spec.byteLength), begin);
      else sources.fill(payload, spec.byteLength)(data.subarray(begin, end));
    }
    sources.verify();
    return result;
  } finally {
    sources.end();
  }
}

/** A tensor's bytes, or those of several without a name. */
interface StreamedSpec extends Pick<WriteEntry<Payload>, 'byteLength' | 'payload'> {
  readonly name?: string;
}

/** A file's header, and its tensors in the order of their bytes. */
interface StreamedLayout extends Pick<Layout<never>, 'header' | 'byteLength'> {
  readonly placed: Iterable<{ readonly spec: StreamedSpec }>;
}

/** Short neighbours, which become one piece. */
class JoinedPieces {
  readonly #bytes = new Uint8Array(PIECE_BYTE_LENGTH);
  #filled = 0;

  /** Yields what was put in, when bytes of this length do not fit after it. */
  *flush(byteLength = PIECE_BYTE_LENGTH): Generator<Uint8Array<ArrayBuffer>, void, void> {
    if (this.#filled === 0 || this.#filled + byteLength <= PIECE_BYTE_LENGTH) return;
    yield Uint8Array.from(this.#bytes.subarray(0, this.#filled));
    this.#filled = 0;
  }

  /** Returns the place of so many bytes, which must fit. */
  take(byteLength: number): Uint8Array {
    this.#filled += byteLength;
    return this.#bytes.subarray(this.#filled - byteLength, this.#filled);
  }
}

/**
 * Yields the bytes in order, in pieces of at most 1 MiB of separate memory. Short tensors share a piece.
 *
 * @throws As the streams of tensors; FileChangedError before the last piece when a source has changed; `signal.reason`
 */
export async function* serializedPieces(
  { header, placed }: StreamedLayout,
  lease: () => LeasedSources<AsyncFill>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const sources = lease();
  const joined = new JoinedPieces();
  async function* filled(
    byteLength: number,
    fill: AsyncFill,
    tensor: string | undefined,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
    for (const { begin, end } of cut(0, byteLength, PIECE_BYTE_LENGTH)) {
      signal?.throwIfAborted();
      const length = end - begin;
      yield* joined.flush(length);
      // Again: the reader may have aborted at that piece.
      signal?.throwIfAborted();
      if (length < PIECE_BYTE_LENGTH) {
        await fill(joined.take(length), begin, signal);
        continue;
      }
      const piece = allocate(Uint8Array, length, { tensor });
      await fill(piece, begin, signal);
      yield piece;
    }
  }
  try {
    signal?.throwIfAborted();
    yield* filled(header.length, fillFromBytes(header), undefined);
    for (const { spec } of placed) {
      const { payload, byteLength, name } = spec;
      if (payload.kind !== 'stream') {
        yield* filled(byteLength, fillOf(payload, byteLength, sources), name);
        continue;
      }
      for await (const piece of payload.open(signal)) {
        yield* filled(piece.length, fillFromBytes(piece), name);
      }
    }
    sources.verify();
    yield* joined.flush();
  } finally {
    sources.end();
  }
}

function fillOf(
  payload: Exclude<Payload, StreamPayload>,
  byteLength: number,
  sources: LeasedSources<AsyncFill>,
): AsyncFill {
  if (payload.kind === 'computed') return payload.fill;
  const isPlain = payload.kind === 'memory' && payload.digest === undefined;
  return isPlain ? fillFrom(payload) : sources.fill(payload, byteLength);
}

function fillFrom(memory: MemoryPayload): AsyncFill {
  return (
    memory.fill ?? ((target, begin) => target.set(memory.window(begin, begin + target.length)))
  );
}

function fillFromBytes(bytes: Uint8Array): AsyncFill {
  return (target, begin) => target.set(bytes.subarray(begin, begin + target.length));
}

/**
 * The bytes of a file that is made while it is read, by `serializeStream`: an async iterable of pieces, or a
 * `ReadableStream` of them. It can be read once.
 *
 * @example
 * ```ts
 * const stream = serializeStream({ steps: { dtype: 'I32', shape: [2], data: Int32Array.of(1, 2) } });
 * console.log(stream.byteLength); // → 80
 * const response = new Response(stream.readable());
 * console.log((await response.arrayBuffer()).byteLength); // → 80
 * ```
 */
export class SerializedStream implements AsyncIterable<Uint8Array<ArrayBuffer>> {
  /** Length of the whole file in bytes. */
  readonly byteLength: number;
  #open: (() => AsyncGenerator<Uint8Array<ArrayBuffer>, void, void>) | undefined;

  private constructor(
    byteLength: number,
    open: () => AsyncGenerator<Uint8Array<ArrayBuffer>, void, void>,
  ) {
    this.byteLength = byteLength;
    this.#open = open;
  }

  /** @internal */
  static of(
    byteLength: number,
    open: () => AsyncGenerator<Uint8Array<ArrayBuffer>, void, void>,
  ): SerializedStream {
    return new SerializedStream(byteLength, open);
  }

  /**
   * The pieces in order, of at most 1 MiB each; they are yours. Leaving the loop ends it.
   *
   * @throws TypeError `ERR_INVALID_STATE` the second time; in the loop as `serializeStream`
   */
  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
    const open = this.#open;
    this.#open = undefined;
    if (open !== undefined) return open();
    const message = 'the stream is read already: make another one by serializeStream';
    throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_STATE' });
  }

  /**
   * The same as a web stream, which makes a piece when it is asked for one. Cancelling ends it.
   *
   * @throws As iterating
   */
  readable(): ReadableStream<Uint8Array<ArrayBuffer>> {
    const pieces = this[Symbol.asyncIterator]();
    return new ReadableStream<Uint8Array<ArrayBuffer>>(
      {
        async pull(controller) {
          const { value, done } = await pieces.next();
          if (done === true) controller.close();
          else controller.enqueue(value);
        },
        async cancel() {
          await pieces.return();
        },
      },
      { highWaterMark: 0 },
    );
  }
}
