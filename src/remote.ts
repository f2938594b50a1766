/**
 * Read what you need of a remote checkpoint.
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
export type { BlobFolder, ByteSource } from './remote/byte-source.js';
export type {
  RemoteCallOptions,
  RemoteCheckpoint,
  RemoteCheckpointFacts,
  RemoteReadOptions,
  RemoteTensorsOptions,
} from './remote/checkpoint.js';
export type { HeadersInput } from './remote/credentials.js';
export type { DownloadOptions } from './remote/download/checked-download.js';
export { download } from './remote/download/download.js';
export type {
  DownloadedFile,
  DownloadPlan,
  DownloadResult,
  PlannedDownload,
} from './remote/download/run-download.js';
export { openRemote, openRemotePipeline } from './remote/node/open-remote.js';
export type { RemoteOptions } from './remote/open.js';
export type { RemotePipeline, RemotePipelineOptions } from './remote/pipeline.js';
export type { RequestEvent } from './remote/request-event.js';
export type { Fetch } from './remote/session.js';
export type { SourceChoice } from './remote/source.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { CastTarget } from './tensor/float32/cast.js';
export type { Partition } from './tensor/partition.js';
export type { RowIndices } from './tensor/rows.js';
export type { SliceIndex, SliceIndices } from './tensor/slice.js';
export type { TakeAsyncOptions, TakeOptions } from './tensor/take.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { ViewConstructor, ViewOptions } from './tensor/view-types.js';
export type { TransferOptions, TransferProgress } from './work/transfer.js';
export type { ConfigMismatch } from './write/checkpoint/cast-config.js';
export type { DryRun, DryRunResult, PlannedFile, WritePlan } from './write/checkpoint/plan.js';
export type { SerializeStreamOptions } from './write/input/serialize-in-memory.js';
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
export type { LockOptions } from './write/replacement/locks.js';
export type { OverwriteOptions, ReplacedFile } from './write/replacement/replaced-files.js';
export { type SummedStreamOptions, serialize, serializeStream } from './write/save/serialize.js';
export type {
  SelectableInfo,
  SelectedAs,
  SelectionOptions,
  TensorChoice,
} from './write/selection/options.js';
export { SelectionError } from './write/selection/selection-error.js';
export type { SelectionReport } from './write/selection/selection-report.js';
