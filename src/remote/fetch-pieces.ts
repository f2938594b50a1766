/** Fetches planned pieces, several at a time, into the memory of tensors. */

import { allocate } from '../errors/out-of-memory.js';
import { type Slots, Transfer, type TransferOptions } from '../io/transfer.js';
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
 * Fetches all pieces, begun in this order, as many at once as there are slots. An error ends the requests
 * under way; an abort also ends waiting for a slot. Memory beside the results: at most a piece for every
 * slot.
 *
 * @throws What the first request that fails rejects with; what `onProgress` throws
 */
export async function fetchPieces(
  pieces: readonly FetchPiece[],
  slots: Slots,
  onProgress: TransferOptions['onProgress'],
  scope: AbortController,
): Promise<void> {
  const { signal } = scope;
  const totalBytes = pieces.reduce((sum, { begin, end }) => sum + end - begin, 0);
  const transfer = new Transfer(totalBytes, { onProgress }, () => signal.throwIfAborted());
  const onBytes = (byteLength: number): void => {
    try {
      transfer.advance(byteLength);
    } catch (error) {
      // Thrown into the request, it would look like a broken connection.
      scope.abort(error);
    }
  };
  const fetching = transfer.run(pieces, slots, async (piece) => {
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
  const tensor = parts.length === 1 ? first.memory.tensor : undefined;
  const options = { signal, onBytes, tensor };
  if (parts.length === 1 && first.copy.loops.length === 0) {
    const { memory, targetByteOffset, copy } = first;
    const target = memory.bytes.subarray(targetByteOffset, targetByteOffset + copy.byteLength);
    return await file.readInto(target, begin, options);
  }
  const bytes = allocate(Uint8Array, end - begin, { path: file.path, tensor });
  await file.readInto(bytes, begin, options);
  for (const { copy, memory, targetByteOffset } of parts) {
    gather(copy, bytes, begin, memory.bytes, targetByteOffset);
  }
}
