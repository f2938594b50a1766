/**
 * Open, read, write, convert and download model checkpoints, without copying what is only read.
 *
 * @packageDocumentation
 */

export {
  convert,
  createWriter,
  download,
  editMetadata,
  loadFile,
  mappingStatus,
  mergeAdapters,
  mergeModels,
  open,
  openPipeline,
  parse,
  safeOpen,
  safeOpenAsync,
  saveCheckpoint,
  saveFile,
  scanPickle,
  serialize,
  serializeStream,
  verify,
  watch,
} from '#runtime';
export {
  FileChangedError,
  FileClosedError,
  FormatError,
  InvalidTensorError,
  QuantizationError,
  RemoteError,
  SafetensorsError,
  TensorNotFoundError,
} from './errors/errors.js';
export { splitStateDictIntoShards } from './file/shards/split.js';
export { DTYPES } from './header/dtype.js';
export { dequantize } from './quantized/dequantize.js';
export { fromFloat32 } from './tensor/float32/from-float32.js';
export { parseSlice } from './tensor/slice.js';
export type * from './types.js';
export { SelectionError } from './write/selection/selection-error.js';
export { select } from './write/selection/view.js';
