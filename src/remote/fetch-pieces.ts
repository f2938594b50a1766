/** Fetches planned pieces, several at a time, into the memory of tensors. */

import { RemoteError } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';
import type { Slots } from '../io/pieces.js';
import { Transfer, type TransferOptions } from '../io/transfer.js';
import { untilAborted } from '../io/until-aborted.js';
import { gather } from '../tensor/gather.js';
import type { FetchPiece, PiecePart, ResultMemory } from './fetch-plan.js';

/** Memory that is made when the first bytes for it are about to arrive. */
export class LazyMemory implements ResultMemory {
  readonly tensor: string;
  readonly byteLength: number;
  readonly #path: string;
  #bytes: Uint8Array<ArrayBuffer> | undefined;

  /** The path is for messages. */
  constructor(tensor: string, byteLength: number, path: string) {
    this.tensor = tensor;
    this.byteLength = byteLength;
    this.#path = path;
  }

  /** @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY` */
  get bytes(): Uint8Array<ArrayBuffer> {
    const { tensor, byteLength } = this;
    this.#bytes ??= allocate(Uint8Array, byteLength, { path: this.#path, tensor });
    return this.#bytes;
  }
}

/**
 * Fetches all pieces of a plan, begun in its order, as many at once as there are slots. An error ends the requests
 * under way; an abort also ends waiting for a slot. Memory beside the results: at most a piece for every
 * slot.
 *
 * @throws What the first request that fails rejects with; what `onProgress` throws
 */
export async function fetchPieces(
  plan: () => Iterable<FetchPiece>,
  slots: Slots,
  onProgress: TransferOptions['onProgress'],
  scope: AbortController,
): Promise<void> {
  const { signal } = scope;
  let totalBytes = 0;
  for (const { begin, end } of plan()) totalBytes += end - begin;
  const transfer = new Transfer(totalBytes, { onProgress }, () => signal.throwIfAborted());
  const onBytes = (byteLength: number): void => {
    try {
      transfer.advance(byteLength);
    } catch (error) {
      // Thrown into the request, it would look like a broken connection.
      scope.abort(error);
    }
  };
  const fetching = transfer.run(plan(), slots, async (piece) => {
    try {
      await fetchPiece(piece, signal, onBytes);
    } catch (error) {
      scope.abort(error);
      throw error;
    }
    return 0;
  });
  await untilAborted(fetching, signal);
}

async function fetchPiece(
  { file, begin, end, parts }: FetchPiece,
  signal: AbortSignal,
  onBytes: (byteLength: number) => void,
): Promise<void> {
  const [first] = parts as [PiecePart, ...PiecePart[]];
  const { memory, targetByteOffset, copy } = first;
  const tensor = parts.length === 1 ? memory.tensor : undefined;
  const isRun = parts.length === 1 && copy.loops.length === 0;
  const bytes = isRun
    ? memory.bytes.subarray(targetByteOffset, targetByteOffset + copy.byteLength)
    : allocate(Uint8Array, end - begin, { path: file.path, tensor });
  try {
    await file.readInto(bytes, begin, { signal, onBytes });
  } catch (error) {
    throw withTensor(error, tensor);
  }
  if (isRun) return;
  for (const { copy, memory, targetByteOffset } of parts) {
    gather(copy, bytes, begin, memory.bytes, targetByteOffset);
  }
}

/** The error to throw for that of a request, which knows no tensors: one that names the tensor. */
function withTensor(error: unknown, tensor: string | undefined): unknown {
  if (tensor === undefined || !(error instanceof RemoteError)) return error;
  const { code, path, status, url, cause, message } = error;
  const prefix = path === undefined ? '' : `${path}: `;
  const rest = message.slice(prefix.length);
  return new RemoteError(code, rest, { path, tensor, status, url, cause });
}
