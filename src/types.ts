/** All public types. The entries export them with their own names. */

export type { Advice } from './errors/advice.js';
export type {
  ErrorCode,
  FileChangedError,
  FileClosedError,
  FormatError,
  InvalidTensorError,
  QuantizationError,
  RemoteError,
  SafetensorsError,
  TensorNotFoundError,
} from './errors/errors.js';
export type { Checkpoint, CheckpointJson } from './file/checkpoint/checkpoint.js';
export type { OpenOptions } from './file/checkpoint/open.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './file/hub/parameter-count.js';
export type { ParseOptions } from './file/open.js';
export type { StateDictSplit } from './file/shards/split.js';
export type {
  ChangedFile,
  CheckpointCheck,
  CheckpointProblem,
  HubComparison,
  MissingFile,
  UnverifiedReason,
  ValueFindings,
  VerificationReport,
  VerifiedFile,
} from './file/shards/verification-report.js';
export type { Pipeline } from './file/source/pipeline.js';
export type {
  ComplexValue,
  PlainValue,
  RootKeys,
  UnknownObject,
} from './file/source/plain-value.js';
export type { StreamOptions } from './file/source/stream.js';
export type {
  Quantization,
  ShardHeader,
  SiblingFile,
  TensorEntry,
  TensorInfo,
} from './file/source/tensor-info.js';
export type { TensorSource } from './file/source/tensor-source.js';
export type { VerifyBytesOptions } from './file/source/verify-options.js';
export type { WatchOptions } from './file/watching/watch.js';
export type { Watcher } from './file/watching/watcher.js';
export type { VoidDtype } from './foreign/numpy/item-types.js';
export type { ScanOptions } from './foreign/scan/scan-file.js';
export type { ScanFinding, ScannedGlobal, ScanReport } from './foreign/scan/scan-report.js';
export type { TorchLimits } from './foreign/torch/open.js';
export type {
  Dtype,
  DtypeInfo,
  TensorData,
  TensorDataConstructor,
  TypedArray,
} from './header/dtype.js';
export type { TensorSpec } from './header/tensor-spec.js';
export type { ModelspecProblem } from './inspect/modelspec.js';
export type { TreeEntry, TreeNode } from './inspect/tree.js';
export type {
  ChangedTensor,
  CheckpointDifference,
  CompareOptions,
} from './inspect/values/checkpoint-difference.js';
export type { CompareTensorsOptions, TensorDifference } from './inspect/values/difference.js';
export type { Statistics } from './inspect/values/running-statistics.js';
export type { Histogram, ValueWindows } from './inspect/values/statistics.js';
export type { SliceableTensor } from './inspect/values/tensor-values.js';
export type { AdapterChange } from './merge/adapters/change.js';
export type {
  AdapterDescription,
  DescribeAdapterOptions,
  DescribedModule,
} from './merge/adapters/describe.js';
export type { MergedInfo } from './merge/adapters/merge-adapters.js';
export type {
  AdapterInput,
  MergeAdaptersOptions,
  MergeModelsOptions,
} from './merge/adapters/options.js';
export type { MergedModelInfo, ModelChange } from './merge/models/merge-models.js';
export type { MergeMethod } from './merge/models/methods/methods.js';
export type {
  MergeParameters,
  MergeRecipe,
  ModelInput,
  ModelParameters,
  SliceInput,
} from './merge/models/recipe.js';
export type { AdapterSource } from './open/merge-adapters.js';
export type { MergeModelsRecipe } from './open/merge-models.js';
export type { OpenPipelineSourceOptions } from './open/open-pipeline.js';
export type { OpenSourceOptions } from './open/sources/options.js';
export type { AnyCheckpoint, Source } from './open/sources/sources.js';
export type { VerifyOptions } from './open/sources/verify-handle.js';
export type { OpenFileHandle } from './platform/io/paths.js';
export type { MappingStatus } from './platform/storage/mapping-status.js';
export type { DequantizeOptions } from './quantized/model.js';
export type { ByteSource } from './remote/byte-source.js';
export type { RemoteCheckpoint, RemoteCheckpointJson } from './remote/checkpoint.js';
export type { DownloadOptions } from './remote/download/checked-download.js';
export type { RepairedFile } from './remote/download/repair.js';
export type {
  DownloadedFile,
  DownloadPlan,
  DownloadResult,
  PlannedDownload,
} from './remote/download/run-download.js';
export type { RemotePipeline } from './remote/pipeline.js';
export type { RequestEvent } from './remote/request-event.js';
export type { SourceChoice } from './remote/source.js';
export type { RowBlock } from './tensor/float-rows.js';
export type { Partition } from './tensor/partition.js';
export type { SliceAxis, SliceIndex, SliceIndices } from './tensor/slice.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { TransferOptions, TransferProgress } from './work/transfer.js';
export type { ConfigMismatch } from './write/checkpoint/cast-config.js';
export type { DryRun, PlannedFile } from './write/checkpoint/plan.js';
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
export type { SerializedStream } from './write/input/serialized.js';
export type { TensorBytes } from './write/input/tensor-bytes.js';
export type {
  NamedTensors,
  NewTensor,
  NewTensorOf,
  TensorInput,
} from './write/input/tensor-input.js';
export type { TensorStream } from './write/input/tensor-stream.js';
export type { ReplacedFile } from './write/replacement/replaced-files.js';
export type { EditMetadataOptions, MetadataEdit } from './write/save/edit-metadata.js';
export type { SaveOptions } from './write/save/save.js';
export type { SummedStreamOptions } from './write/save/serialize.js';
export type { SafetensorsWriter, WriterOptions } from './write/save/writer.js';
export type { SelectionError } from './write/selection/selection-error.js';
export type { SelectOptions } from './write/selection/view.js';
