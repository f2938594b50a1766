/** The bytes of a whole file, one piece after the other. */

import { allocate } from '../../errors/out-of-memory.js';
import type { Layout } from '../../header/header-writer.js';
import { cut } from '../../tensor/pieces.js';
import type { AsyncFill } from '../../tensor/storage/made.js';
import type { Lenders } from './serialized.js';
import type { MemoryPayload, Payload, StreamPayload, WriteEntry } from './tensor-input.js';

/** Bytes of a piece: a multiple of every element's length. */
const PIECE_BYTE_LENGTH = 2 ** 20;

/** A tensor's bytes, or those of several without a name. */
interface StreamedSpec extends Pick<WriteEntry<Payload>, 'byteLength' | 'payload'> {
  readonly name?: string;
}

/** A file's header, and its tensors in the order of their bytes. */
export interface StreamedLayout extends Pick<Layout<never>, 'header' | 'byteLength'> {
  readonly placed: Iterable<{ readonly spec: StreamedSpec }>;
}

/** Short neighbours, which become one piece. */
class JoinedPieces {
  readonly #bytes = new Uint8Array(PIECE_BYTE_LENGTH);
  #filled = 0;

  /** Yields what was put in, when bytes of this length do not fit behind it. */
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
 * Yields the bytes in order, in pieces of at most 1 MiB of memory of their own. Short tensors share a piece.
 *
 * @throws As the streams of tensors; FileChangedError before the last piece when a source has changed; `signal.reason`
 */
export async function* serializedPieces(
  { header, placed }: StreamedLayout,
  lend: () => Lenders<AsyncFill>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
  const lenders = lend();
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
        await fill(joined.take(length), begin);
        continue;
      }
      const piece = allocate(Uint8Array, length, { tensor });
      await fill(piece, begin);
      yield piece;
    }
  }
  try {
    signal?.throwIfAborted();
    yield* filled(header.length, fillFromBytes(header), undefined);
    for (const { spec } of placed) {
      const { payload, byteLength, name } = spec;
      if (payload.kind !== 'stream') {
        yield* filled(byteLength, fillOf(payload, lenders), name);
        continue;
      }
      for await (const piece of payload.open(signal)) {
        yield* filled(piece.length, fillFromBytes(piece), name);
      }
    }
    lenders.verify();
    yield* joined.flush();
  } finally {
    lenders.end();
  }
}

function fillOf(payload: Exclude<Payload, StreamPayload>, lenders: Lenders<AsyncFill>): AsyncFill {
  if (payload.kind === 'file') return lenders.fill(payload);
  return payload.kind === 'made' ? payload.fill : fillFrom(payload);
}

function fillFrom({ window }: MemoryPayload): AsyncFill {
  return (target, begin) => target.set(window(begin, begin + target.length));
}

function fillFromBytes(bytes: Uint8Array): AsyncFill {
  return (target, begin) => target.set(bytes.subarray(begin, begin + target.length));
}
