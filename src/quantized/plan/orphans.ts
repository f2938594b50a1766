/** Scales, zero points and the like whose weight is not there: it was lost, or is in another shard. */

import type { Dtype } from '../../header/dtype.js';
import type { CheckpointTensors } from './checkpoint-tensors.js';
import type { StoredTensor } from './logical-plan.js';
import { memberOf } from './scaled.js';

/** Members that only modules with a quantized weight have. */
const CERTAIN: ReadonlySet<string> = new Set([
  ...['qzeros', 'g_idx', 'SCB', 'weight_format', 'scale_weight', 'scale_input'],
  ...['qscale_weight', 'wscales'],
  ...['weight_scale', 'weight_scale_inv', 'weight_scale_2', 'weight_global_scale'],
  ...['weight_zero_point', 'weight_shape', 'weight_g_idx', 'weight_zeros'],
  ...['weight_codebook', 'weight_s_rel', 'weight_s_channel', 'weight_offset'],
]);

/** Members that have a meaning elsewhere, and the methods whose modules have them. */
const BY_METHOD: Readonly<Record<string, readonly string[]>> = {
  scales: ['gptq', 'awq', 'mlx', 'mxfp4'],
  biases: ['mlx'],
  scale: ['fp8'],
};

/** Names of a module's weight. */
const WEIGHTS: readonly string[] = ['weight', 'weight_packed', 'qweight', 'blocks'];

const EXPONENTS: ReadonlySet<Dtype> = new Set<Dtype>(['U8', 'F8_E8M0']);

/** Returns the logical name of the missing weight that a tensor belongs to; null for all others. */
export function orphanWeightOf(
  { name, dtype, shape }: StoredTensor,
  tensors: CheckpointTensors,
  method: string | null,
): string | null {
  const dot = name.lastIndexOf('.');
  const last = name.slice(dot + 1);
  // The names of most tensors decide at once.
  if (!last.endsWith('_scales') && !CERTAIN.has(last) && !Object.hasOwn(BY_METHOD, last))
    return null;
  const module = dot === -1 ? '' : name.slice(0, dot);
  const has = (member: string): boolean => tensors.member(module, member) !== undefined;
  const isExponents = EXPONENTS.has(dtype) && shape.length > 1;
  if (last.endsWith('_scales') && (isExponents || method === 'mxfp4')) {
    return name.slice(0, -'_scales'.length);
  }
  // A weight of a plain dtype has no need of scales.
  if (WEIGHTS.some(has)) return null;
  const methods = Object.hasOwn(BY_METHOD, last) ? BY_METHOD[last] : undefined;
  const isMethods = methods?.includes(method ?? '') === true && shape.length > 0;
  const isPair =
    (last === 'scales' && (has('qzeros') || has('g_idx') || has('biases'))) ||
    (last === 'biases' && has('scales'));
  const isOrphan =
    CERTAIN.has(last) || isMethods || isPair || (methods !== undefined && isExponents);
  if (!isOrphan) return null;
  // OpenAI's own blocks have the name of the weight before the dot.
  const isBlocks = last === 'scales' && dtype === 'U8' && method !== 'mlx';
  return isBlocks ? module : memberOf(module, 'weight');
}
