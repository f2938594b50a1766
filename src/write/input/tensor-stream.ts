/** Reads a tensor's bytes from a stream, without all of them in memory at once. */

import { argumentTypeError } from '../../errors/arguments.js';
import { isAsyncIterable, isIterable } from '../../errors/brand-checks.js';
import { quoteName, rejectTensor } from '../../errors/errors.js';
import type { NamedTensorSpec } from '../../header/tensor-spec.js';
import { itemsUntilAborted, untilAborted } from '../../work/until-aborted.js';
import { bytesOfData, isTensorBytes, type TensorBytes } from './tensor-bytes.js';

/** Pieces of a tensor's bytes, in order, of any length. */
export type TensorPieces = Iterable<TensorBytes> | AsyncIterable<TensorBytes>;

/**
 * A stream; or a function, called once when the bytes are needed, that returns all of them, an
 * iterable of pieces, or a promise of either.
 */
export type TensorStream =
  | AsyncIterable<TensorBytes>
  | (() => TensorBytes | TensorPieces | Promise<TensorBytes | TensorPieces>);

/** The tensor that a stream is for. */
type StreamedTensor = Pick<NamedTensorSpec, 'name' | 'dtype' | 'byteLength'>;

/** Whether a value is a stream. */
export function isTensorStream(value: unknown): value is TensorStream {
  return typeof value === 'function' || isAsyncIterable(value);
}

/**
 * Yields the bytes of a stream, piece by piece. The stream owns each piece and may overwrite it once the next is
 * requested. Leaving early ends the stream; the signal ends it even during a wait.
 *
 * @throws InvalidTensorError for more or fewer bytes than the tensor has; the surplus piece is not yielded. Also when
 *   a piece was detached before the next was requested
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for pieces that are not bytes; errors of the stream; `signal.reason`
 */
export async function* readStream(
  tensor: StreamedTensor,
  stream: TensorStream,
  signal?: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  let found = 0;
  const pieces = await untilAborted(piecesOfStream(tensor, stream), signal);
  for await (const piece of itemsUntilAborted(pieces, signal)) {
    const bytes = bytesOfData(tensor, piece);
    found += bytes.byteLength;
    if (found > tensor.byteLength) failStreamLength(tensor, `${found} or more`);
    const { byteLength } = bytes;
    yield bytes;
    if (bytes.byteLength !== byteLength) {
      rejectTensor(
        `a piece of ${byteLength} bytes was transferred or resized before it was written`,
        tensor.name,
      );
    }
  }
  if (found < tensor.byteLength) failStreamLength(tensor, String(found));
}

async function piecesOfStream(tensor: StreamedTensor, stream: TensorStream): Promise<TensorPieces> {
  const given = typeof stream === 'function' ? await stream() : stream;
  // First, because a typed array is also an iterable, of numbers.
  if (isTensorBytes(given)) return [given];
  if (isAsyncIterable(given) || isIterable(given)) return given;
  const subject = `the result of the data function of tensor ${quoteName(tensor.name)} returns`;
  throw argumentTypeError(subject, 'bytes or an iterable of bytes', given);
}

function failStreamLength({ name, byteLength }: StreamedTensor, found: string): never {
  rejectTensor(`expected ${byteLength} bytes from its stream, found ${found}`, name);
}
