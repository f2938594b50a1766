/** Turns tensors and slices into bytes to fetch, and fetched bytes into tensors. */

import { DTYPES } from '../header/dtype.js';
import type { Header } from '../header/header.js';
import { planSlice, type SliceIndices } from '../tensor/slice.js';
import { requireBuffer } from '../tensor/storage-range.js';
import type { StridedCopy } from '../tensor/strided-copy.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { DEFAULT_MAX_GAP_BYTE_LENGTH, type WantedCopy } from './fetch-plan.js';
import { type FetchOptions, type FetchQueue, LazyMemory } from './fetch-queue.js';
import type { RemoteFile } from './remote-file.js';

/** A tensor, by the header of its shard. */
export interface LocatedTensor {
  /** Its name in the shard. */
  readonly name: string;
  readonly header: Header;
  readonly entry: number;
  readonly file: RemoteFile;
}

/** A tensor or slice to fetch. */
export interface WantedTensor extends WantedCopy {
  /** Makes the tensor over its memory, once all bytes are there. */
  make(): Tensor;
}

/** A whole tensor. Throws `SAFETENSORS_TENSOR_TOO_LARGE` if no buffer can hold it. */
export function wantTensor(located: LocatedTensor, maxBufferByteLength: number): WantedTensor {
  const { header, entry } = located;
  const byteLength = header.end(entry) - header.begin(entry);
  const all = { byteLength, byteOffset: 0, runByteLength: byteLength, loops: [] };
  return want(located, all, header.shape(entry), maxBufferByteLength);
}

/** A slice of a tensor. */
export function wantSlice(
  located: LocatedTensor,
  index: SliceIndices,
  maxBufferByteLength: number,
): WantedTensor {
  const { name, header, entry, file } = located;
  const { bits } = DTYPES[header.dtype(entry)];
  const context = { path: file.path, tensor: name };
  const plan = planSlice(header.shape(entry), index, bits, context);
  return want(located, plan, plan.shape, maxBufferByteLength);
}

function want(
  { name, header, entry, file }: LocatedTensor,
  { byteLength, byteOffset, runByteLength, loops }: StridedCopy,
  shape: readonly number[],
  maxBufferByteLength: number,
): WantedTensor {
  const limits = { maxBufferByteLength, path: file.path };
  requireBuffer(limits, name, byteLength, 'slices');
  const memory = new LazyMemory(name, byteLength, file.path);
  const position = header.dataStart + header.begin(entry) + byteOffset;
  return {
    file,
    copy: { byteLength, byteOffset: position, runByteLength, loops },
    memory,
    make: () => TensorOf.ofBytes(name, header.dtype(entry), shape, memory.bytes, limits),
  };
}

/** Fetches tensors. Makes them in the order given. */
export async function fetchTensors(
  wanted: readonly WantedTensor[],
  queue: FetchQueue,
  {
    onProgress,
    maxGapByteLength = DEFAULT_MAX_GAP_BYTE_LENGTH,
  }: Pick<FetchOptions, 'onProgress'> & { readonly maxGapByteLength?: number | undefined },
  scope: AbortController,
): Promise<Tensor[]> {
  await queue.fetch(wanted, { onProgress, maxGapByteLength }, scope);
  return wanted.map((one) => one.make());
}
