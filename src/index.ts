/**
 * Open, read, write and split safetensors checkpoints, without copying what is only read.
 *
 * @packageDocumentation
 */

export type { Checkpoint } from './checkpoint.js';
export type { CheckpointLayoutOptions } from './checkpoint-plan.js';
export type { ConvertAsyncOptions, ConvertOptions } from './conversion.js';
export {
  DTYPES,
  type Dtype,
  type DtypeFacts,
  type TensorData,
  type TensorDataConstructor,
} from './dtype.js';
export { type EditMetadataOptions, editMetadata, type MetadataEdit } from './edit-metadata.js';
export {
  type ErrorCode,
  type ErrorContext,
  FileChangedError,
  FileClosedError,
  FormatError,
  type FormatErrorCode,
  InvalidTensorError,
  type InvalidTensorErrorCode,
  SafetensorsError,
  SliceError,
  type SliceErrorCode,
  TensorNotFoundError,
} from './errors.js';
export type { CloseOptions, SafetensorsFile, TensorInfo } from './file.js';
export { type FloatData, type FloatDtype, fromFloat32 } from './float-encoding.js';
export type { HeaderOptions, MetadataInput } from './header-writer.js';
export type { MetadataChanges } from './metadata-changes.js';
export type { NamedValues } from './named-values.js';
export {
  loadFile,
  type OpenOptions,
  type ParseOptions,
  parse,
  safeOpen,
} from './open.js';
export { loadCheckpoint, type OpenCheckpointOptions, openCheckpoint } from './open-checkpoint.js';
export type { Partition } from './partition.js';
export type { PathLike } from './path-like.js';
export { type ReshardedCheckpoint, type ReshardOptions, reshard } from './reshard.js';
export { type SaveOptions, type SaveSyncOptions, saveFile, saveFileSync } from './save.js';
export {
  type SaveCheckpointOptions,
  type SavedCheckpoint,
  saveCheckpoint,
} from './save-checkpoint.js';
export { serialize } from './serialize.js';
export {
  type Sized,
  type SplitOptions,
  type StateDictSplit,
  splitStateDictIntoShards,
} from './shard.js';
export type { SharedMode } from './shared-tensors.js';
export type { SliceIndex } from './slice.js';
export { parseSlice } from './slice-syntax.js';
export type { StorageKind } from './storage.js';
export type { CheckpointSummary, DtypeCounts, TensorCounts } from './summary.js';
export type { ChunksOptions, Tensor, ViewConstructor } from './tensor.js';
export type { TensorBytes, TypedArray } from './tensor-bytes.js';
export type { NewTensor, TensorInput } from './tensor-input.js';
export type { TensorSpec } from './tensor-spec.js';
export type { TensorPieces, TensorStream } from './tensor-stream.js';
export type { TransferOptions, TransferProgress } from './transfer.js';
export type { WriteCheckpointOptions, WrittenCheckpoint } from './write-checkpoint.js';
export {
  createWriter,
  type SafetensorsWriter,
  type WriterData,
  type WriterOptions,
} from './writer.js';
