/**
 * Leave pickle behind: read checkpoints of PyTorch and arrays of NumPy as data, and convert them.
 *
 * @packageDocumentation
 */

export type { Checkpoint, CheckpointFacts } from './checkpoint/checkpoint.js';
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
  type ConversionOptions,
  type ConversionPlan,
  type ConvertedCheckpoint,
  convert,
} from './convert/convert.js';
export { type DetectedFormat, detectFormat } from './convert/detect-format.js';
export type { SourceTensorInfo } from './convert/source.js';
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
  type RemoteErrorCode,
  SafetensorsError,
  SliceError,
  type SliceErrorCode,
  TensorNotFoundError,
} from './errors/errors.js';
export type { FoundFormat } from './errors/found-format.js';
export type { NamedValues } from './errors/named-values.js';
export type { ShardHeader, TensorEntry, TensorInfo } from './file/facts.js';
export type { CloseOptions } from './file/file.js';
export type { StreamOptions } from './file/stream.js';
export type { ListingOptions, TensorSource } from './file/tensor-source.js';
export type { VerifyBytesOptions } from './file/verify-options.js';
export type { CastTarget } from './float32/cast.js';
export type { ForeignLimits } from './foreign/limits.js';
export type { VoidDtype } from './foreign/numpy/item-types.js';
export { type OpenNumpyOptions, openNumpy } from './foreign/numpy/open-numpy.js';
export type { PickleLimits } from './foreign/pickle/limits.js';
export type { LayoutLimits } from './foreign/tensor-layout.js';
export type { UnknownGlobals } from './foreign/torch/builders.js';
export type { TorchCheckpoint } from './foreign/torch/checkpoint.js';
export {
  type OpenTorchOptions,
  openTorchCheckpoint,
  openTorchToVerify,
  type TorchLimits,
} from './foreign/torch/open.js';
export type { ComplexValue, PlainValue, UnknownObject } from './foreign/torch/plain-values.js';
export type { RootKeys } from './foreign/torch/roots.js';
export { type ScanOptions, scanPickle } from './foreign/torch/scan-file.js';
export type {
  ScanFinding,
  ScanFindingKind,
  ScannedGlobal,
  ScanReport,
  ScanVerdict,
} from './foreign/torch/scan-report.js';
export type { IrregularityKind } from './foreign/zip/irregularity.js';
export type { ArchiveLimits } from './foreign/zip/limits.js';
export type { Dtype, TensorData, TypedArray } from './format/dtype.js';
export type { HeaderOptions, MetadataInput } from './format/header-writer.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './hub/parameter-count.js';
export type { PathLike } from './io/paths.js';
export type { TransferOptions, TransferProgress } from './io/transfer.js';
export type { LockOptions } from './replacement/locks.js';
export type { SaveSyncOptions } from './save/save.js';
export type {
  SelectableInfo,
  SelectedAs,
  SelectionOptions,
  TensorChoice,
} from './selection/options.js';
export { SelectionError } from './selection/selection-error.js';
export type { SelectionReport } from './selection/selection-report.js';
export type { SharedMode } from './shards/shared-tensors.js';
export type { CheckpointCheck } from './shards/verification-error.js';
export type { StorageOptions } from './storage/open.js';
export type { StorageKind } from './storage/storage.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { Partition } from './tensor/partition.js';
export type { RowIndices } from './tensor/rows.js';
export { parseSlice, type SliceIndex } from './tensor/slice.js';
export type { TakeAsyncOptions, TakeOptions } from './tensor/take.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { ViewConstructor, ViewOptions } from './tensor/view-types.js';
