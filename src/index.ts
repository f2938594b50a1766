/**
 * Open, read, write and split safetensors checkpoints, without copying what is only read.
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
  InvalidTensorError,
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
export type { Checkpoint, CheckpointFacts } from './file/checkpoint/checkpoint.js';
export {
  loadCheckpoint,
  type OpenCheckpointAsyncOptions,
  type OpenCheckpointOptions,
  openCheckpoint,
  openCheckpointAsync,
} from './file/checkpoint/open.js';
export { type OpenPipelineOptions, openPipeline } from './file/checkpoint/open-pipeline.js';
export type { VerifiableSource } from './file/checkpoint/verify.js';
export type { CloseOptions, SafetensorsFile } from './file/file.js';
export type { HashCheckOptions } from './file/hash-check.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './file/hub/parameter-count.js';
export {
  loadFile,
  type OpenAsyncOptions,
  type OpenOptions,
  type ParseOptions,
  parse,
  safeOpen,
  safeOpenAsync,
} from './file/open.js';
export type { SharedMode } from './file/shards/shared-tensors.js';
export {
  type Sized,
  type SplitOptions,
  type SplitSummary,
  type StateDictSplit,
  splitStateDictIntoShards,
} from './file/shards/split.js';
export { VerificationError } from './file/shards/verification-error.js';
export type {
  ByteCheck,
  CheckpointCheck,
  CheckpointProblem,
  UnverifiedReason,
  VerificationReport,
  VerifiedFile,
} from './file/shards/verification-report.js';
export type { FileFacts, ShardHeader, TensorEntry, TensorInfo } from './file/source/facts.js';
export type { Pipeline, PipelineModel, PipelineOptions } from './file/source/pipeline.js';
export type { ListingOptions, TensorSource } from './file/source/tensor-source.js';
export type { VerifyBytesOptions } from './file/source/verify-options.js';
export type { StreamOptions } from './file/stream.js';
export type { VoidDtype } from './foreign/numpy/item-types.js';
export type { UnknownGlobals } from './foreign/torch/state-dict/builders.js';
export type { RootKeys } from './foreign/torch/state-dict/roots.js';
export {
  DTYPES,
  type Dtype,
  type DtypeFacts,
  type TensorData,
  type TensorDataConstructor,
  type TypedArray,
} from './header/dtype.js';
export type { HeaderOptions, MetadataInput } from './header/header-writer.js';
export type { MetadataChanges } from './header/metadata-changes.js';
export type { TensorSpec } from './header/tensor-spec.js';
export { verifyCheckpoint } from './open/verify.js';
export type { VerifyOptions } from './open/verify-checkpoint.js';
export type { BufferCounting } from './platform/addon/uncounted-buffers.js';
export type { PathLike, PathOrDescriptor } from './platform/io/paths.js';
export { type MappingStatus, mappingStatus } from './platform/storage/mapping-status.js';
export type { StorageOptions } from './platform/storage/open.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { CastTarget } from './tensor/float32/cast.js';
export { type FloatData, type FloatDtype, fromFloat32 } from './tensor/float32/from-float32.js';
export type { Partition } from './tensor/partition.js';
export type { RowIndices } from './tensor/rows.js';
export type { SliceIndex, SliceIndices } from './tensor/slice.js';
export type { StorageKind } from './tensor/storage/storage.js';
export type { TakeAsyncOptions, TakeOptions } from './tensor/take.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { ViewConstructor, ViewOptions } from './tensor/view-types.js';
export type { TransferOptions, TransferProgress } from './work/transfer.js';
export type { ConfigMismatch } from './write/checkpoint/cast-config.js';
export type { WriteCheckpointOptions, WrittenCheckpoint } from './write/checkpoint/execute-plan.js';
export type { CheckpointLayoutOptions } from './write/checkpoint/layout.js';
export type { CopiedFiles, OtherFilesOptions } from './write/checkpoint/other-files.js';
export type {
  CheckpointPlan,
  DryRun,
  DryRunResult,
  PlannedFile,
  SharedTensors,
  WritePlan,
} from './write/checkpoint/plan.js';
export type {
  ReshardedCheckpoint,
  ReshardOptions,
  ReshardPlan,
} from './write/checkpoint/reshard.js';
export { reshard } from './write/checkpoint/reshard-checkpoint.js';
export type {
  SaveCheckpointOptions,
  SaveCheckpointPlan,
  SavedCheckpoint,
} from './write/checkpoint/save.js';
export { saveCheckpoint } from './write/checkpoint/save-checkpoint.js';
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
export { createWriter } from './write/save/create-writer.js';
export {
  type EditMetadataOptions,
  editMetadata,
  type MetadataEdit,
} from './write/save/edit-metadata.js';
export {
  type SaveOptions,
  type SaveSyncOptions,
  saveFile,
  saveFileSync,
} from './write/save/save.js';
export { type SummedStreamOptions, serialize, serializeStream } from './write/save/serialize.js';
export type { SafetensorsWriter, WriterData, WriterOptions } from './write/save/writer.js';
export type {
  SelectableInfo,
  SelectedAs,
  SelectionOptions,
  TensorChoice,
} from './write/selection/options.js';
export { SelectionError } from './write/selection/selection-error.js';
export type { SelectionReport } from './write/selection/selection-report.js';
