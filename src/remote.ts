/**
 * Read what you need of a checkpoint that is somewhere else.
 *
 * @packageDocumentation
 */

export {
  type ErrorCode,
  type ErrorContext,
  FileChangedError,
  FileClosedError,
  FormatError,
  type FormatErrorCode,
  RemoteError,
  type RemoteErrorCode,
  type RemoteErrorContext,
  SafetensorsError,
  SliceError,
  type SliceErrorCode,
  TensorNotFoundError,
} from './errors/errors.js';
export type { TensorInfo } from './file/facts.js';
export type {
  Dtype,
  TensorData,
  TypedArray,
} from './format/dtype.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './hub/parameter-count.js';
export type { TransferProgress } from './io/transfer.js';
export type { ByteSource } from './remote/byte-source.js';
export type {
  RemoteCallOptions,
  RemoteCheckpoint,
  RemoteCheckpointFacts,
  RemoteReadOptions,
  RemoteTensorsOptions,
} from './remote/checkpoint.js';
export type { HeadersInput } from './remote/credentials.js';
export { openRemote } from './remote/node/open-remote.js';
export type { RemoteOptions } from './remote/open.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { Partition } from './tensor/partition.js';
export type { RowIndices } from './tensor/rows.js';
export { parseSlice, type SliceIndex } from './tensor/slice.js';
export type { TakeAsyncOptions, TakeOptions } from './tensor/take.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { ViewConstructor, ViewOptions } from './tensor/view-types.js';
