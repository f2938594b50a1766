/**
 * What else a module holds besides the parts of its quantized weight. A tensor that no scheme knows may change what the
 * codes mean, such as an offset, a low-rank part or a rotation: the weight is rejected, and the tensor named.
 */

import { type CheckpointTensors, MARKER_NAME } from './checkpoint-tensors.js';
import { MARKED_MEMBERS } from './comfy.js';
import type { StoredTensor } from './logical-plan.js';
import { memberOf, moduleOf } from './scaled.js';

/** Members of a module that don't change its weight: they are about activations, caches or the output. */
const HARMLESS: ReadonlySet<string> = new Set([
  'bias',
  'input_scale',
  'input_scale_ub',
  'input_zero_point',
  'input_global_scale',
  'scale_input',
  'activation_scale',
  'qscale_act',
  'output_scale',
  'output_zero_point',
  'output_global_scale',
  ...['q', 'k', 'v', 'kv'].flatMap((name) => [`${name}_scale`, `${name}_zero_point`]),
  // The shape of packed weights, which those read.
  'weight_shape',
  'shape',
  // The router of a mixture of experts adds it to its output.
  'e_score_correction_bias',
  MARKER_NAME,
]);

/** Methods that are not dequantized, by members of their modules. */
const METHODS: ReadonlyMap<string, string> = new Map([
  ...named('svdquant', [
    'wscales',
    'wcscales',
    'wtscale',
    'wzeros',
    'smooth',
    'smooth_orig',
    'smooth_factor',
    'smooth_factor_orig',
    'proj_down',
    'proj_up',
    'lora_down',
    'lora_up',
    'weight_proj_down',
    'weight_proj_up',
    'weight_smooth_factor',
  ]),
  ...named('ModelSlim', ['weight_offset', 'input_offset', 'quant_bias', 'deq_scale']),
  ...named('SDNQ', ['svd_up', 'svd_down']),
  ...named('modelopt', ['pre_quant_scale']),
  ...named('Marlin', ['workspace']),
  // Transformer Engine keeps scales of FP8 weights there, in a format of its own.
  ...named('Transformer Engine', ['_extra_state']),
  ...named('torchao', ['act_pre_scale', 'weight_act_pre_scale', '_weight_act_pre_scale']),
]);

function named(method: string, members: readonly string[]): [string, string][] {
  return members.map((member) => [member, method]);
}

/** Children of a module that turn its weight or its activations: transforms of compressed-tensors, QuaRot. */
const TRANSFORM = /_(?:input|output|q_attn|k_cache)$|had(?:amard)?(?:$|_)|rotat|^R\d+$/i;

/** The basis of all weights below a module: SpinQuant's rotations, Hadamard matrices. */
const BASIS = /^(?:R[1-4]|hadamard(?:_matrix|_K)?)$/;

/** Whether a member of a module is about activations, caches or the output. */
export function isHarmless(member: string): boolean {
  return HARMLESS.has(member);
}

/**
 * The module below which weights are in a rotated basis, by a square matrix of that name; null for all other tensors.
 */
export function rotatedModule({ name, shape }: StoredTensor): string | null {
  if (shape.length !== 2 || shape[0] !== shape[1]) return null;
  const module = moduleOf(name);
  const dot = module.lastIndexOf('.');
  if (!BASIS.test(module.slice(dot + 1))) return null;
  return dot === -1 ? '' : module.slice(0, dot);
}

/** Limit for the suffix of a name after that of a weight. */
const MAX_SUFFIX_LENGTH = 64;

/** The name of a weight that a tensor belongs to, and the tensor's name within its module. */
export interface Member {
  readonly weight: string;
  readonly member: string;
}

/**
 * Returns the quantized weight whose module holds a tensor that may change it; null for all other tensors.
 *
 * @param isQuantized whether a logical name is that of a quantized weight
 */
export function foreignMember(
  name: string,
  isQuantized: (weight: string) => boolean,
): Member | null {
  const dot = name.lastIndexOf('.');
  const [parent, last] = [dot === -1 ? '' : name.slice(0, dot), name.slice(dot + 1)];
  if (HARMLESS.has(last)) return null;
  const weight = memberOf(parent, 'weight');
  // All tensors outside of modules would be members of the outermost one.
  const isMember = parent !== '' || METHODS.has(last) || MARKED_MEMBERS.has(last);
  if (isMember && weight !== name && isQuantized(weight)) return { weight, member: last };
  if (parent !== '' && isQuantized(parent)) return { weight: parent, member: last };
  // Experts are parameters of three dimensions: `gate_up_proj`, and `gate_up_proj_scale` for it.
  const least = Math.max(1, last.length - MAX_SUFFIX_LENGTH);
  for (let at = last.lastIndexOf('_'); at >= least; at = last.lastIndexOf('_', at - 1)) {
    const owner = memberOf(parent, last.slice(0, at));
    const member = last.slice(at + 1);
    if (isQuantized(owner)) return HARMLESS.has(member) ? null : { weight: owner, member };
  }
  return ofChild(parent, isQuantized);
}

function ofChild(parent: string, isQuantized: (weight: string) => boolean): Member | null {
  const dot = parent.lastIndexOf('.');
  if (dot === -1 || !TRANSFORM.test(parent.slice(dot + 1))) return null;
  const weight = `${parent.slice(0, dot)}.weight`;
  return isQuantized(weight) ? { weight, member: parent.slice(dot + 1) } : null;
}

/** Names the method of the first of these members that is known; undefined without one. */
export function methodOfMembers(members: Iterable<string>): string | undefined {
  for (const member of members) {
    const method = METHODS.get(member);
    if (method !== undefined) return method;
  }
  return undefined;
}

/** What a module shows of its method: a member that only this method has; undefined without one. */
export function methodOfModule(
  module: string,
  tensors: CheckpointTensors,
): { readonly method: string; readonly name: string } | undefined {
  for (const [member, method] of METHODS) {
    const name = tensors.member(module, member)?.name;
    if (name !== undefined) return { method, name };
  }
  return undefined;
}
