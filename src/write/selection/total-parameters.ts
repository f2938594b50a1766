/** `total_parameters` of a checkpoint's metadata, when only a part of its tensors is taken. */

import type { Dtype } from '../../header/dtype.js';
import { elementCountOf } from '../../header/tensor-spec.js';
import { packedWeightOf } from './packed-weights.js';

/** The key of the metadata. */
export const TOTAL_PARAMETERS = 'total_parameters';

const WHOLE_NUMBER = /^\d+$/;

/** A tensor of the source. */
export interface CountedTensor {
  readonly name: string;
  readonly info: { readonly dtype: Dtype; readonly shape: readonly number[] };
}

/**
 * The number of parameters in some tensors of a model: their elements, at most what the whole model declares,
 * since that counts tied tensors once. What quantized weights are read with counts as none. Null when there are
 * weights with several values per element: how many, the headers do not tell.
 *
 * @param all the tensors of the source, or at least `taken` and the weights that these may belong to
 * @param names the names of all tensors of the source: what stands beside a weight tells whether it is packed
 * @param declared what the metadata say of all
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
