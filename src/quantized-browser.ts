/**
 * `safetensors-mmap/quantized` in browsers, without Node's modules.
 *
 * @packageDocumentation
 */

export {
  type ErrorCode,
  type ErrorContext,
  type FormatErrorCode,
  type InvalidTensorErrorCode,
  QuantizationError,
  type QuantizationErrorCode,
  type RemoteErrorCode,
  SafetensorsError,
  TensorNotFoundError,
} from './errors/errors.js';
export type { FoundFormat } from './errors/found-format.js';
export type { TensorEntry, TensorInfo } from './file/source/facts.js';
export type { ListingOptions, TensorSource } from './file/source/tensor-source.js';
export type { Dtype, TensorData, TypedArray } from './header/dtype.js';
export {
  DequantizedCheckpoint,
  type DequantizeOptions,
  dequantized,
} from './quantized/dequantized.js';
export type { LogicalInfo } from './quantized/info.js';
export { LogicalTensor } from './quantized/logical-tensor.js';
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
export type { QuantizedSource } from './quantized/source.js';
export type { ChunksOptions } from './tensor/chunks.js';
export type { ConvertAsyncOptions, ConvertOptions } from './tensor/conversion.js';
export type { RowIndices } from './tensor/rows.js';
export type { SliceIndex, SliceIndices } from './tensor/slice.js';
export type { TakeAsyncOptions, TakeOptions } from './tensor/take.js';
export type { Tensor, TensorOf } from './tensor/tensor.js';
export type { ViewConstructor, ViewOptions } from './tensor/view-types.js';
export type { TransferOptions, TransferProgress } from './work/transfer.js';
