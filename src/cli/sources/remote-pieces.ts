/** Fetches a remote file from its start to its end, in little memory. */

import { Buffer } from 'node:buffer';
import { DTYPES, type ShardHeader, type TensorEntry } from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';
import { merge, type Part } from '../../tensor/pieces.js';
import { boxesOf } from './boxes.js';

/** Bytes of one fetch, by several requests; the next fetch runs while these bytes are used. */
const FETCH_BYTE_LENGTH = 16 * 2 ** 20;

/** Fetches bytes that are beside each other, in order. */
type FetchParts = () => Promise<readonly Uint8Array[]>;

/** Fetches small neighbours together, and large tensors in boxes. */
function* fetchesOf(
  checkpoint: RemoteCheckpoint,
  tensors: readonly TensorEntry[],
  signal: AbortSignal,
): Generator<FetchParts> {
  const together = (some: readonly string[]): FetchParts => {
    return async () => {
      const found = await checkpoint.readTensors(some, { signal });
      return Array.from(found.values(), ({ bytes }) => bytes);
    };
  };
  const limits = { maxByteLength: FETCH_BYTE_LENGTH, unitOf: () => Number.POSITIVE_INFINITY };
  const ranges = tensors
    .filter(({ byteLength }) => byteLength > 0)
    .map((tensor) => ({ ...tensor, position: tensor.dataOffsets[0] }));
  for (const { parts, byteLength } of merge(ranges, limits)) {
    const { name, dtype, shape } = (parts[0] as Part<TensorEntry>).range;
    const { bits } = DTYPES[dtype];
    // A box of a packed tensor could begin inside a byte.
    if (byteLength <= FETCH_BYTE_LENGTH || bits % 8 !== 0) {
      yield together(parts.map(({ range }) => range.name));
      continue;
    }
    for (const box of boxesOf(shape, FETCH_BYTE_LENGTH / (bits / 8))) {
      yield async () => [(await checkpoint.getSlice(name, ...box, { signal })).bytes];
    }
  }
}

/**
 * The bytes of a shard: prefix, header, then the tensors; the format allows no gaps between them.
 */
export async function* remotePieces(
  checkpoint: RemoteCheckpoint,
  { text, dataStart, tensors }: ShardHeader,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const header = Buffer.from(text);
  const prefix = Buffer.alloc(dataStart - header.length);
  prefix.writeBigUInt64LE(BigInt(header.length));
  yield prefix;
  yield header;
  const fetches = fetchesOf(checkpoint, tensors, signal);
  const start = (): Promise<readonly Uint8Array[]> | undefined => {
    const { value } = fetches.next() as { value: FetchParts | undefined };
    const fetched = value?.();
    // It may fail before its turn comes, when nothing awaits it yet.
    fetched?.catch(() => {});
    return fetched;
  };
  let next = start();
  while (next !== undefined) {
    const pieces = await next;
    next = start();
    yield* pieces;
  }
}
