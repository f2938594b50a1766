/** All public types. The entries export them with their own names. */

export type {
  ErrorCode,
  ErrorContext,
  FileChangedError,
  FileClosedError,
  FormatError,
  FormatErrorCode,
  InvalidTensorError,
  InvalidTensorErrorCode,
  QuantizationError,
  QuantizationErrorCode,
  RemoteError,
  RemoteErrorCode,
  RemoteErrorContext,
  SafetensorsError,
  TensorNotFoundError,
} from './errors/errors.js';
export type { FoundFormat } from './errors/found-format.js';
export type { NamedValues } from './errors/named-values.js';
export type {
  Checkpoint,
  CheckpointFacts,
  CheckpointFormat,
} from './file/checkpoint/checkpoint.js';
export type { OpenAsyncOptions, OpenOptions } from './file/checkpoint/open.js';
export type { OpenPipelineOptions } from './file/checkpoint/open-pipeline.js';
export type { VerifiableSource } from './file/checkpoint/verify.js';
export type { CloseOptions } from './file/file.js';
export type { HashCheckOptions } from './file/hash-check.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './file/hub/parameter-count.js';
export type { ParseOptions } from './file/open.js';
export type { SharedMode } from './file/shards/shared-tensors.js';
export type { Sized, SplitOptions, SplitSummary, StateDictSplit } from './file/shards/split.js';
export type {
  ByteCheck,
  CheckpointCheck,
  CheckpointProblem,
  UnverifiedReason,
  VerificationReport,
  VerifiedFile,
} from './file/shards/verification-report.js';
export type {
  Quantization,
  ShardHeader,
  SiblingFile,
  TensorEntry,
  TensorInfo,
} from './file/source/facts.js';
export type { Pipeline, PipelineModel, PipelineOptions } from './file/source/pipeline.js';
export type {
  ComplexValue,
  PlainValue,
  RootKeys,
  UnknownObject,
} from './file/source/plain-value.js';
export type { StreamOptions } from './file/source/stream.js';
export type { ListingOptions, TensorSource } from './file/source/tensor-source.js';
export type { VerifyBytesOptions } from './file/source/verify-options.js';
export type { ForeignLimits } from './foreign/limits.js';
export type { VoidDtype } from './foreign/numpy/item-types.js';
export type { OpenNumpyOptions } from './foreign/numpy/open-numpy.js';
export type { PickleLimits } from './foreign/pickle/limits.js';
export type { ScanLimits, ScanOptions } from './foreign/scan/scan-file.js';
export type {
  ScanFinding,
  ScanFindingKind,
  ScannedGlobal,
  ScanReport,
  ScanVerdict,
} from './foreign/scan/scan-report.js';
export type { LayoutLimits } from './foreign/tensors/tensor-layout.js';
export type { OpenTorchOptions, TorchLimits } from './foreign/torch/open.js';
export type { UnknownGlobals } from './foreign/torch/state-dict/builders.js';
export type { IrregularityKind } from './foreign/zip/irregularity.js';
export type { ArchiveLimits } from './foreign/zip/limits.js';
export type {
  Dtype,
  DtypeFacts,
  TensorData,
  TensorDataConstructor,
  TypedArray,
} from './header/dtype.js';
export type { HeaderOptions, MetadataInput } from './header/header-writer.js';
export type { MetadataChanges } from './header/metadata-changes.js';
export type { TensorSpec } from './header/tensor-spec.js';
export type { ModelspecProblem } from './inspect/modelspec.js';
export type { TreeEntry, TreeNode } from './inspect/tree.js';
export type {
  ChangedTensor,
  CheckpointDifference,
  ComparablePipeline,
  CompareOptions,
} from './inspect/values/checkpoint-difference.js';
export type { TensorDifference } from './inspect/values/difference.js';
export type { Histogram, Statistics, ValueWindows } from './inspect/values/statistics.js';
export type { SliceableTensor } from './inspect/values/tensor-values.js';
export type { OpenedPipeline, OpenPipelineSourceOptions } from './open/open-pipeline.js';
export type { OpenSourceOptions } from './open/sources/options.js';
export type {
  Address,
  AnyCheckpoint,
  LocalSource,
  Opened,
  RequestedSource,
  Source,
} from './open/sources/sources.js';
export type { VerifyOptions } from './open/sources/verify-handle.js';
export type { BufferCounting } from './platform/addon/uncounted-buffers.js';
export type {
  Descriptor,
  OpenFileHandle,
  PathLike,
  PathOrDescriptor,
} from './platform/io/paths.js';
export type { MappingStatus } from './platform/storage/mapping-status.js';
export type { StorageOptions } from './platform/storage/open.js';
export type { DequantizeOptions } from './quantized/model.js';
export type { QuantizedSource } from './quantized/source.js';
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
export type {
  DownloadedFile,
  DownloadPlan,
  DownloadResult,
  PlannedDownload,
} from './remote/download/run-download.js';
export type { RemoteOptions } from './remote/open.js';
export type { RemotePipeline, RemotePipelineOptions } from './remote/pipeline.js';
export type { RequestEvent } from './remote/request-event.js';
export type { Fetch } from './remote/session.js';
export type { SourceChoice } from './remote/source.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type {
  FloatRowsAsyncOptions,
  FloatRowsOptions,
  RowBlock,
  RowBlocksOptions,
  RowsOption,
} from './tensor/float-rows.js';
export type { CastTarget } from './tensor/float32/cast.js';
export type { FloatData, FloatDtype } from './tensor/float32/from-float32.js';
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
  SaveCheckpointOptions,
  SaveCheckpointPlan,
  SavedCheckpoint,
} from './write/checkpoint/save.js';
export type {
  ConversionOptions,
  ConversionPlan,
  ConvertedCheckpoint,
} from './write/convert/convert.js';
export type { SourceTensorInfo } from './write/convert/source.js';
export type { FetchableTensors } from './write/input/fetched-tensors.js';
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
export type { EditMetadataOptions, MetadataEdit } from './write/save/edit-metadata.js';
export type { SaveOptions, SaveSyncOptions } from './write/save/save.js';
export type { SummedStreamOptions } from './write/save/serialize.js';
export type { SafetensorsWriter, WriterData, WriterOptions } from './write/save/writer.js';
export type {
  DtypeChoice,
  SelectableInfo,
  SelectedAs,
  SelectionOptions,
  TensorChoice,
} from './write/selection/options.js';
export type { SelectionError } from './write/selection/selection-error.js';
export type { SelectionReport } from './write/selection/selection-report.js';
export type { SelectOptions } from './write/selection/view.js';
