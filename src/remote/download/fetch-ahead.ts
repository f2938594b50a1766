/** Fetches pieces in order, a few ahead of the piece in use. */

import { withScope } from '../../work/scope.js';
import { type DownloadPiece, type FetchedPiece, PIECE_BYTE_LENGTH } from './pieces.js';

/** Pieces of one file in flight or waiting: their latencies overlap. */
const PIECES_AHEAD = 3;

/** The consumer of the pieces. */
interface PieceUser {
  readonly signal: AbortSignal | undefined;
  /** Called with the count of arriving bytes, and with a negative number for unwanted bytes among them. */
  advance(byteLength: number): void;
  /** Uses the next bytes of the file; their memory is reused afterwards. */
  use(bytes: Uint8Array<ArrayBuffer>): Promise<void>;
}

/** A fetched piece, possibly incomplete. */
interface Fetched {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Memory that is reused for later pieces. */
  readonly memory: Uint8Array<ArrayBuffer> | undefined;
  readonly failure: { readonly reason: unknown } | undefined;
}

/**
 * Fetches all pieces. After a failure it still uses the bytes that arrived before.
 *
 * @throws The error of a request, of `advance` or of `use`; the signal's reason
 */
export async function fetchAhead(pieces: Iterable<DownloadPiece>, user: PieceUser): Promise<void> {
  await withScope([user.signal], async (scope) => {
    const free = Array<Uint8Array<ArrayBuffer> | undefined>(PIECES_AHEAD).fill(undefined);
    const waiting: Promise<Fetched>[] = [];
    const iterator = pieces[Symbol.iterator]();
    const fill = (): void => {
      while (free.length > 0) {
        const next = iterator.next();
        if (next.done === true) return;
        waiting.push(fetchAheadPiece(next.value, free.pop(), scope, user));
      }
    };
    try {
      for (fill(); waiting.length > 0; fill()) {
        const { bytes, memory, failure } = await (waiting.shift() as Promise<Fetched>);
        if (bytes.length > 0) await user.use(bytes);
        if (failure !== undefined) throw failure.reason;
        scope.signal.throwIfAborted();
        free.push(memory);
      }
    } catch (error) {
      scope.abort(error);
      throw error;
    } finally {
      await Promise.all(waiting);
    }
  });
}

/** Never rejects: the caller uses the arrived bytes before it throws the failure. */
async function fetchAheadPiece(
  piece: DownloadPiece,
  memory: Uint8Array<ArrayBuffer> | undefined,
  scope: AbortController,
  user: PieceUser,
): Promise<Fetched> {
  const advance = (byteLength: number): void => {
    try {
      user.advance(byteLength);
    } catch (error) {
      // Thrown into a request, it would look like a broken connection.
      scope.abort(error);
    }
  };
  if (piece.file === null) {
    advance(piece.bytes.length);
    return { bytes: piece.bytes, memory, failure: undefined };
  }
  const { file, begin, end } = piece;
  const buffer = memory ?? new Uint8Array(PIECE_BYTE_LENGTH);
  let received = 0;
  const onBytes = (byteLength: number): void => {
    received += byteLength;
    advance(byteLength);
  };
  let failure: Fetched['failure'];
  try {
    await file.readInto(buffer.subarray(0, end - begin), begin, { signal: scope.signal, onBytes });
  } catch (reason) {
    failure = { reason };
  }
  const bytes = requestedOf(piece, buffer, received);
  if (bytes.length < received) advance(bytes.length - received);
  return { bytes, memory: buffer, failure };
}

/** The wanted ones of the bytes that have arrived, moved to the start of the buffer. */
function requestedOf(
  { begin, runs }: FetchedPiece,
  buffer: Uint8Array<ArrayBuffer>,
  received: number,
): Uint8Array<ArrayBuffer> {
  let length = 0;
  for (const run of runs) {
    const start = run.begin - begin;
    const end = Math.min(run.end - begin, received);
    if (end <= start) break;
    buffer.copyWithin(length, start, end);
    length += end - start;
  }
  return buffer.subarray(0, length);
}
