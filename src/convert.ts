/**
 * Leave pickle behind: read checkpoints of PyTorch and arrays of NumPy as data, and convert them.
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
  type RemoteErrorCode,
  SafetensorsError,
  TensorNotFoundError,
} from './errors/errors.js';
export type { FoundFormat } from './errors/found-format.js';
export type { NamedValues } from './errors/named-values.js';
export type { Checkpoint, CheckpointFacts } from './file/checkpoint/checkpoint.js';
export type { VerifiableSource } from './file/checkpoint/verify.js';
export type { CloseOptions } from './file/file.js';
export type { HashCheckOptions } from './file/hash-check.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './file/hub/parameter-count.js';
export type { ParseOptions } from './file/open.js';
export type { SharedMode } from './file/shards/shared-tensors.js';
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
export type { StreamOptions } from './file/stream.js';
export { type OpenDdufOptions, openDduf } from './foreign/dduf/open.js';
export type { ForeignLimits } from './foreign/limits.js';
export type { VoidDtype } from './foreign/numpy/item-types.js';
export { type OpenNumpyOptions, openNumpy } from './foreign/numpy/open-numpy.js';
export type { PickleLimits } from './foreign/pickle/limits.js';
export { type ScanLimits, type ScanOptions, scanPickle } from './foreign/scan/scan-file.js';
export type {
  ScanFinding,
  ScanFindingKind,
  ScannedGlobal,
  ScanReport,
  ScanVerdict,
} from './foreign/scan/scan-report.js';
export type { LayoutLimits } from './foreign/tensors/tensor-layout.js';
export type { TorchCheckpoint } from './foreign/torch/checkpoint.js';
export {
  type OpenTorchOptions,
  openTorchCheckpoint,
  type TorchLimits,
} from './foreign/torch/open.js';
export type { UnknownGlobals } from './foreign/torch/state-dict/builders.js';
export type {
  ComplexValue,
  PlainValue,
  UnknownObject,
} from './foreign/torch/state-dict/plain-values.js';
export type { RootKeys } from './foreign/torch/state-dict/roots.js';
export type { IrregularityKind } from './foreign/zip/irregularity.js';
export type { ArchiveLimits } from './foreign/zip/limits.js';
export type { Dtype, TensorData, TypedArray } from './header/dtype.js';
export type { HeaderOptions, MetadataInput } from './header/header-writer.js';
export type { PathLike } from './platform/io/paths.js';
export type { StorageOptions } from './platform/storage/open.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { CastTarget } from './tensor/float32/cast.js';
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
  ConversionOptions,
  ConversionPlan,
  ConvertedCheckpoint,
} from './write/convert/convert.js';
export { convert } from './write/convert/convert-checkpoint.js';
export type {
  ConversionStreamOptions,
  StreamedConversion,
} from './write/convert/convert-stream.js';
export { type DetectedFormat, detectFormat } from './write/convert/detect-format.js';
export type { SourceTensorInfo } from './write/convert/source.js';
export { convertStream } from './write/convert/stream-conversion.js';
export type { SerializedStream } from './write/input/serialized.js';
export type { LockOptions } from './write/replacement/locks.js';
export type { OverwriteOptions, ReplacedFile } from './write/replacement/replaced-files.js';
export type { SaveSyncOptions } from './write/save/save.js';
export type {
  SelectableInfo,
  SelectedAs,
  SelectionOptions,
  TensorChoice,
} from './write/selection/options.js';
export { SelectionError } from './write/selection/selection-error.js';
export type { SelectionReport } from './write/selection/selection-report.js';
