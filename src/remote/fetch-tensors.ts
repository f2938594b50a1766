/** Turns tensors and slices into bytes to fetch, and fetched bytes into tensors. */

import { DTYPES } from '../header/dtype.js';
import { Header } from '../header/header.js';
import { digestOf } from '../header/tensor-digests.js';
import { planSlice, type SliceIndices } from '../tensor/slice.js';
import { requireBuffer } from '../tensor/storage-range.js';
import type { StridedCopy } from '../tensor/strided-copy.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { DEFAULT_MAX_GAP_BYTE_LENGTH, type RequestedCopy } from './fetch-plan.js';
import { type FetchOptions, type FetchQueue, LazyMemory } from './fetch-queue.js';
import type { RemoteContents } from './read-header.js';
import type { RemoteFile } from './remote-file.js';
import { compareDigests, type DeclaredTensor, type Digest } from './whole-digests.js';

/** A tensor, by the header of its shard. */
export interface FetchableTensor {
  /** Its name in the shard. */
  readonly name: string;
  readonly header: RemoteContents;
  readonly entry: number;
  readonly file: RemoteFile;
}

/** A tensor or slice to fetch. */
interface RequestedTensor extends RequestedCopy {
  /** The digest that the file declares for a whole tensor; undefined if it has none, or is not to be compared. */
  readonly hex?: string | undefined;
  /** Makes the tensor over its memory, once all bytes are there. */
  make(): Tensor;
}

/**
 * A whole tensor, to be compared with its digest if there is a `digest`.
 *
 * @throws SafetensorsError `SAFETENSORS_TENSOR_TOO_LARGE` if no buffer can hold it; FormatError as `digestOf`
 */
export function wantTensor(
  located: FetchableTensor,
  { maxBufferByteLength, digest }: Pick<FetchLimits, 'maxBufferByteLength' | 'digest'>,
): RequestedTensor {
  const { name, header, entry, file } = located;
  const byteLength = header.end(entry) - header.begin(entry);
  const all = { byteLength, byteOffset: 0, runByteLength: byteLength, loops: [] };
  const wanted = want(located, all, header.shape(entry), maxBufferByteLength);
  if (digest === undefined || !(header instanceof Header)) return wanted;
  return { ...wanted, hex: digestOf(header, entry, { path: file.path, tensor: name }) };
}

/** A slice of a tensor. */
export function wantSlice(
  located: FetchableTensor,
  index: SliceIndices,
  maxBufferByteLength: number,
): RequestedTensor {
  const { name, header, entry, file } = located;
  const { bits } = DTYPES[header.dtype(entry)];
  const context = { path: file.path, tensor: name };
  const plan = planSlice(header.shape(entry), index, bits, context);
  return want(located, plan, plan.shape, maxBufferByteLength);
}

function want(
  { name, header, entry, file }: FetchableTensor,
  { byteLength, byteOffset, runByteLength, loops }: StridedCopy,
  shape: readonly number[],
  maxBufferByteLength: number,
): RequestedTensor {
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

/** Settings for fetching. */
export interface FetchLimits {
  /** Requests for tensors at a time. */
  readonly concurrency: number;
  /** Longest buffer that this runtime can make, in bytes. */
  readonly maxBufferByteLength: number;
  /** Hashes whole tensors of files with digests; undefined to compare none. */
  readonly digest?: Digest | undefined;
}

/** Settings of one call. */
interface FetchCallOptions extends Pick<FetchOptions, 'onProgress'>, Pick<FetchLimits, 'digest'> {
  readonly maxGapByteLength?: number | undefined;
}

/**
 * Fetches tensors, and compares those with digests. Makes them in the order given.
 *
 * @throws As `FetchQueue.fetch` and `compareDigests`
 */
export async function fetchTensors(
  wanted: readonly RequestedTensor[],
  queue: FetchQueue,
  { onProgress, digest, maxGapByteLength = DEFAULT_MAX_GAP_BYTE_LENGTH }: FetchCallOptions,
  scope: AbortController,
): Promise<Tensor[]> {
  await queue.fetch(wanted, { onProgress, maxGapByteLength }, scope);
  const tensors = wanted.map((one) => one.make());
  if (digest !== undefined) await compareDigests(declaredOf(wanted, tensors), digest, scope.signal);
  return tensors;
}

function* declaredOf(
  wanted: readonly RequestedTensor[],
  tensors: readonly Tensor[],
): Generator<DeclaredTensor, void, void> {
  for (const [i, { file, hex }] of wanted.entries()) {
    if (hex !== undefined) yield { tensor: tensors[i] as Tensor, path: file.path, hex };
  }
}
