/**
 * Open, read, write and split safetensors checkpoints, without copying what is only read.
 *
 * @packageDocumentation
 */

export type { BufferCounting } from './addon/uncounted-buffers.js';
export type { Checkpoint, CheckpointFacts } from './checkpoint/checkpoint.js';
export {
  loadCheckpoint,
  type OpenCheckpointAsyncOptions,
  type OpenCheckpointOptions,
  openCheckpoint,
  openCheckpointAsync,
} from './checkpoint/open.js';
export type { VerifiableSource } from './checkpoint/verify.js';
export type { WriteCheckpointOptions, WrittenCheckpoint } from './checkpoint/write/execute-plan.js';
export type { CheckpointLayoutOptions } from './checkpoint/write/layout.js';
export type { CopiedFiles, OtherFilesOptions } from './checkpoint/write/other-files.js';
export type {
  CheckpointPlan,
  DryRun,
  MaybeDryRun,
  PlannedFile,
  SharedTensors,
  WritePlan,
} from './checkpoint/write/plan.js';
export {
  type ReshardedCheckpoint,
  type ReshardOptions,
  type ReshardPlan,
  reshard,
} from './checkpoint/write/reshard.js';
export {
  type SaveCheckpointOptions,
  type SaveCheckpointPlan,
  type SavedCheckpoint,
  saveCheckpoint,
} from './checkpoint/write/save.js';
export {
  type ErrorCode,
  type ErrorContext,
  FileChangedError,
  FileClosedError,
  ForeignFormatError,
  type ForeignFormatErrorCode,
  FormatError,
  type FormatErrorCode,
  InvalidTensorError,
  type InvalidTensorErrorCode,
  RemoteError,
  type RemoteErrorCode,
  type RemoteErrorContext,
  SafetensorsError,
  SliceError,
  type SliceErrorCode,
  TensorNotFoundError,
} from './errors/errors.js';
export type { FoundFormat } from './errors/found-format.js';
export type { NamedValues } from './errors/named-values.js';
export type { FileFacts, ShardHeader, TensorEntry, TensorInfo } from './file/facts.js';
export type { CloseOptions, SafetensorsFile } from './file/file.js';
export {
  loadFile,
  type OpenAsyncOptions,
  type OpenOptions,
  type ParseOptions,
  parse,
  safeOpen,
  safeOpenAsync,
} from './file/open.js';
export type { StreamOptions } from './file/stream.js';
export type { ListingOptions, TensorSource } from './file/tensor-source.js';
export type { VerifyBytesOptions } from './file/verify-options.js';
export type { CastTarget } from './float32/cast.js';
export { type FloatData, type FloatDtype, fromFloat32 } from './float32/from-float32.js';
export {
  DTYPES,
  type Dtype,
  type DtypeFacts,
  type TensorData,
  type TensorDataConstructor,
  type TypedArray,
} from './format/dtype.js';
export type { HeaderOptions, MetadataInput } from './format/header-writer.js';
export type { MetadataChanges } from './format/metadata-changes.js';
export type { TensorSpec } from './format/tensor-spec.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './hub/parameter-count.js';
export type { PathLike } from './io/paths.js';
export type { TransferOptions, TransferProgress } from './io/transfer.js';
export type { LockOptions } from './replacement/locks.js';
export { type EditMetadataOptions, editMetadata, type MetadataEdit } from './save/edit-metadata.js';
export { type SaveOptions, type SaveSyncOptions, saveFile, saveFileSync } from './save/save.js';
export { serialize } from './save/serialize.js';
export type { TensorBytes } from './save/tensor-bytes.js';
export type { NewTensor, TensorInput } from './save/tensor-input.js';
export type { TensorPieces, TensorStream } from './save/tensor-stream.js';
export {
  createWriter,
  type SafetensorsWriter,
  type WriterData,
  type WriterOptions,
} from './save/writer.js';
export type {
  SelectableInfo,
  SelectedAs,
  SelectionOptions,
  TensorChoice,
} from './selection/options.js';
export { SelectionError } from './selection/selection-error.js';
export type { SelectionReport } from './selection/selection-report.js';
export type { SharedMode } from './shards/shared-tensors.js';
export {
  type Sized,
  type SplitOptions,
  type SplitSummary,
  type StateDictSplit,
  splitStateDictIntoShards,
} from './shards/split.js';
export {
  type CheckpointCheck,
  type CheckpointProblem,
  VerificationError,
} from './shards/verification-error.js';
export { type MappingStatus, mappingStatus } from './storage/mapping-status.js';
export type { StorageKind } from './storage/storage.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { Partition } from './tensor/partition.js';
export type { RowIndices } from './tensor/rows.js';
export { parseSlice, type SliceIndex } from './tensor/slice.js';
export type { TakeAsyncOptions, TakeOptions } from './tensor/take.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { ViewConstructor, ViewOptions } from './tensor/view-types.js';
export {
  type VerificationReport,
  type VerifyOptions,
  verifyCheckpoint,
} from './verification/verify-checkpoint.js';
