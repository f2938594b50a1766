/**
 * What is in a checkpoint: statistics of its values, differences of two tensors, names folded to a tree, ModelSpec; in browsers.
 *
 * @packageDocumentation
 */

export {
  type ErrorCode,
  type ErrorContext,
  type FormatErrorCode,
  type InvalidTensorErrorCode,
  type QuantizationErrorCode,
  type RemoteErrorCode,
  SafetensorsError,
} from './errors/errors.js';
export type { FoundFormat } from './errors/found-format.js';
export type { TensorEntry, TensorInfo } from './file/source/facts.js';
export type { ListingOptions, TensorSource } from './file/source/tensor-source.js';
export type { Dtype, TensorData, TypedArray } from './header/dtype.js';
export { checkModelspec, type ModelspecProblem, thumbnailOf } from './inspect/modelspec.js';
export {
  bytesText,
  countText,
  groupedText,
  shortCountText,
} from './inspect/number-texts.js';
export { lackingDtypes } from './inspect/torch-dtypes.js';
export { type TreeEntry, type TreeNode, treeOf, unfold } from './inspect/tree.js';
export {
  type ChangedTensor,
  type CheckpointDifference,
  type ComparablePipeline,
  type CompareOptions,
  compareCheckpoints,
} from './inspect/values/checkpoint-difference.js';
export { compareTensors, type TensorDifference } from './inspect/values/difference.js';
export { valueNumbers } from './inspect/values/numbers.js';
export {
  type Histogram,
  histogramOf,
  type Statistics,
  statisticsOf,
  type ValueWindows,
} from './inspect/values/statistics.js';
export {
  type SliceableTensor,
  tensorValues,
  type ValuedTensor,
} from './inspect/values/tensor-values.js';
export { valueTexts } from './inspect/values/value-texts.js';
export type { LogicalInfo } from './quantized/info.js';
export type { LogicalTensor } from './quantized/logical-tensor.js';
export type {
  DequantizeCastOptions,
  DequantizedData,
  DequantizedDtype,
  DequantizePartOptions,
  DequantizeRowsAsyncOptions,
  DequantizeRowsOptions,
  RowBlock,
  RowBlocksOptions,
} from './quantized/row-options.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { RowIndices } from './tensor/rows.js';
export type { SliceIndex, SliceIndices } from './tensor/slice.js';
export type { TakeAsyncOptions, TakeOptions } from './tensor/take.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { ViewConstructor, ViewOptions } from './tensor/view-types.js';
export type { TransferOptions, TransferProgress } from './work/transfer.js';
