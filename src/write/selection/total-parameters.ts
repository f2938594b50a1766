/** Recounts `total_parameters` of a checkpoint's metadata when only some of its tensors are taken. */

import type { Dtype } from '../../header/dtype.js';
import { elementCountOf } from '../../header/tensor-spec.js';
import { packedWeightOf } from '../../quantized/plan/packed-weights.js';

/** The key of the metadata. */
export const TOTAL_PARAMETERS = 'total_parameters';

const WHOLE_NUMBER = /^\d+$/;

/** A tensor of the source. */
export interface CountedTensor {
  readonly name: string;
  readonly info: { readonly dtype: Dtype; readonly shape: readonly number[] };
}

/**
 * Returns the number of parameters in some tensors of a model: their elements, at most the whole model's declared
 * number, which counts tied tensors once. Companions of quantized weights don't count. Null with weights of several
 * values per element, because the headers do not say how many.
 *
 * @param all the tensors of the source, or at least `taken` and the weights they may belong to
 * @param names the names of all tensors of the source: a weight's neighbours show whether it is packed
 * @param declared the number in the metadata of the whole model
 */
export function remainingParameters(
  taken: readonly CountedTensor[],
  all: readonly CountedTensor[],
  names: Iterable<string>,
  declared: string,
): number | null {
  const dtypes = new Map(all.map(({ name, info }) => [name, info.dtype]));
  const weights = new Map(
    Array.from(names, (name) => [name, packedWeightOf(name, (other) => dtypes.get(other))]),
  );
  const packed = new Set(weights.values());
  let count = 0;
  for (const { name, info } of taken) {
    const isValue = packed.has(name) || weights.get(name) == null;
    if (packed.has(name) && !info.dtype.startsWith('F8_')) return null;
    if (isValue) count += elementCountOf(info.shape);
  }
  return WHOLE_NUMBER.test(declared) ? Math.min(Number(declared), count) : count;
}
