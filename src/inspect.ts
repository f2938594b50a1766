/**
 * What is in a checkpoint: statistics of its values, differences of two tensors, names folded to a tree, ModelSpec,
 * adapters.
 *
 * @packageDocumentation
 */

export { SafetensorsError } from './errors/errors.js';
export {
  formatBytes,
  formatCount,
  formatInteger,
  formatShortCount,
} from './inspect/format.js';
export { checkModelspec, thumbnailOf } from './inspect/modelspec.js';
export { lackingDtypes } from './inspect/torch-dtypes.js';
export { treeOf, unfold } from './inspect/tree.js';
export { compare } from './inspect/values/checkpoint-difference.js';
export { compareTensors } from './inspect/values/difference.js';
export { formatValues } from './inspect/values/format-values.js';
export { valueNumbers } from './inspect/values/numbers.js';
export { histogram, statistics } from './inspect/values/statistics.js';
export { tensorValues } from './inspect/values/tensor-values.js';
export { describeAdapter } from './merge/adapters/describe-adapter.js';
export type * from './types.js';
