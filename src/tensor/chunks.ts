/** Computes the length of the pieces that `Tensor.chunks` yields. */

import { argumentRangeError, argumentTypeError, type OptionNames } from '../errors/arguments.js';
import { DTYPES, type Dtype } from '../header/dtype.js';

/**
 * Small enough for every runtime's buffers, and for the parts of Node that refuse views of 2 GiB and
 * more, such as the hashes of `node:crypto`.
 */
const DEFAULT_CHUNK_BYTE_LENGTH = 2 ** 30;

/** Options of `Tensor.chunks`. */
export interface ChunksOptions {
  /** Longest chunk, in bytes; 1 GiB by default. At least one whole group of elements. */
  readonly maxByteLength?: number | undefined;
}

/** Names of the options. */
export const CHUNKS_OPTIONS: OptionNames<ChunksOptions> = { maxByteLength: true };

/** The tensor to cut. */
interface ChunkedTensor {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly byteLength: number;
}

/** Returns the length of as many whole rows as fit into the limit; of whole elements when no row fits. */
export function chunkByteLength(
  { dtype, shape, byteLength }: ChunkedTensor,
  maxBufferByteLength: number,
  limit: number = DEFAULT_CHUNK_BYTE_LENGTH,
): number {
  if (!Number.isInteger(limit)) throw argumentTypeError('maxByteLength', 'an integer', limit);
  const rowByteLength = byteLength / (shape[0] || 1);
  const { bits } = DTYPES[dtype];
  // Every second element of 4 bits ends on a byte boundary, every fourth of 6 bits.
  const groupByteLength = bits / Math.min(bits & -bits, 8);
  const hasRows = Number.isInteger(rowByteLength) && rowByteLength <= limit;
  // An empty tensor has rows of 0 bytes.
  const unit = Math.max(hasRows ? rowByteLength : groupByteLength, 1);
  if (limit < unit) throw argumentRangeError('maxByteLength', `at least ${unit} bytes`, limit);
  const longest = Math.min(limit, maxBufferByteLength);
  return longest - (longest % unit);
}
