/**
 * `safetensors-mmap/remote` in browsers: without what needs Node.
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
  type InvalidTensorErrorCode,
  type QuantizationErrorCode,
  RemoteError,
  type RemoteErrorCode,
  type RemoteErrorContext,
  SafetensorsError,
  TensorNotFoundError,
} from './errors/errors.js';
export type { FoundFormat } from './errors/found-format.js';
export type { NamedValues } from './errors/named-values.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './file/hub/parameter-count.js';
export { VerificationError } from './file/shards/verification-error.js';
export type {
  ByteCheck,
  CheckpointCheck,
  CheckpointProblem,
  UnverifiedReason,
  VerificationReport,
  VerifiedFile,
} from './file/shards/verification-report.js';
export type { ShardHeader, TensorEntry, TensorInfo } from './file/source/facts.js';
export type { Pipeline, PipelineModel, PipelineOptions } from './file/source/pipeline.js';
export type { ListingOptions, TensorSource } from './file/source/tensor-source.js';
export type { VerifyBytesOptions } from './file/source/verify-options.js';
export type { Dtype, TensorData, TypedArray } from './header/dtype.js';
export type { HeaderOptions, MetadataInput } from './header/header-writer.js';
export type { TensorSpec } from './header/tensor-spec.js';
export { openRemote, openRemotePipeline } from './remote/browser.js';
export type { BlobFolder, ByteSource } from './remote/byte-source.js';
export type {
  RemoteCallOptions,
  RemoteCheckpoint,
  RemoteCheckpointFacts,
  RemoteReadOptions,
  RemoteTensorsOptions,
} from './remote/checkpoint.js';
export type { HeadersInput } from './remote/credentials.js';
export type { RemoteOptions } from './remote/open.js';
export type { RemotePipeline, RemotePipelineOptions } from './remote/pipeline.js';
export type { Fetch } from './remote/session.js';
export type { SourceChoice } from './remote/source.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { Partition } from './tensor/partition.js';
export type { RowIndices } from './tensor/rows.js';
export type { SliceIndex, SliceIndices } from './tensor/slice.js';
export type { TakeAsyncOptions, TakeOptions } from './tensor/take.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { ViewConstructor, ViewOptions } from './tensor/view-types.js';
export type { TransferOptions, TransferProgress } from './work/transfer.js';
export {
  type SerializeStreamOptions,
  serialize,
  serializeStream,
} from './write/input/serialize-in-memory.js';
export type { SerializedStream } from './write/input/serialized.js';
export type { TensorBytes } from './write/input/tensor-bytes.js';
export type {
  InferredInput,
  NamedTensors,
  NamedTensorsInMemory,
  NewTensor,
  NewTensorOf,
  TensorInput,
} from './write/input/tensor-input.js';
export type { TensorPieces, TensorStream } from './write/input/tensor-stream.js';
