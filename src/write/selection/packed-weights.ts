/**
 * Which tensors belong to a quantized weight: by the names and dtypes of what stands beside each other, since
 * a weight is quantized exactly when its companions are there. No configuration says it any better.
 */

import type { Dtype } from '../../header/dtype.js';

/** The dtype of a tensor of the checkpoint, in any of its files; undefined for a name that it does not have. */
export type DtypeOf = (name: string) => string | undefined;

/**
 * Dtypes of values that are what they say: no weight in these is packed, unless a tensor beside it tells so. Integers
 * of 64 bits are ids, positions and counts.
 */
const PLAIN_DTYPES: ReadonlySet<string> = new Set<Dtype>([
  'F64',
  'F32',
  'F16',
  'BF16',
  'BOOL',
  'C64',
  'I64',
  'U64',
]);

/** One way to name a packed weight and its companions. */
interface Naming {
  /** Ends of the names of packed weights. */
  readonly weights: readonly string[];
  /** Ends of the names of what these are read with, behind the same beginning. */
  readonly companions: readonly string[];
}

/** The packed weight of a linear layer or an embedding, in the schemes that have scales by usual names. */
const MODULE_WEIGHTS: readonly string[] = [
  '.weight',
  '.weight_packed',
  '.qweight',
  '.weight._data',
  '.weight._data._data',
];

/** What makes the keys of an attention; `wk` and `wkv_b` in Mistral's own files. */
const KEY_PROJECTIONS: readonly string[] = [
  'k_proj',
  'qkv_proj',
  'kv_b_proj',
  'query_key_value',
  'Wqkv',
  'wk',
  'wkv_b',
];

const NAMINGS: readonly Naming[] = [
  // FP8 and compressed-tensors; experts have parameters of three dimensions, whose names end in no `.weight`.
  {
    weights: ['', '_packed'],
    companions: [
      '_scale',
      '_scale_inv',
      '_scale_2',
      '_scales',
      '_global_scale',
      '_zero_point',
      '_shape',
      '_g_idx',
      '_activation_scale',
      '_input_scale',
      '_input_global_scale',
      '_input_zero_point',
      '_weight_scale',
      '_weight_scale_inv',
      '_weight_scale_2',
      '_weight_global_scale',
    ],
  },
  // What a module has once: of its weight, or of its activations.
  {
    weights: MODULE_WEIGHTS,
    companions: [
      // DeepSeek-V4, Mistral's own files, ComfyUI, bitsandbytes in 8 bits.
      '.scale',
      '.qscale_weight',
      '.qscale_act',
      '.scale_weight',
      '.scale_input',
      '.SCB',
      // GPTQ, AWQ, MLX, and schemes like these.
      '.scales',
      '.qzeros',
      '.scaled_zeros',
      '.zeros',
      '.zero_point',
      '.g_idx',
      '.biases',
      '.global_scale',
      '.weight_global_scale',
      '.act_global_scale',
      '.tables',
      '.tables2',
      // SVDQuant.
      '.wscales',
      '.wcscales',
      '.wtscale',
      '.wzeros',
      '.smooth',
      '.smooth_orig',
      '.smooth_factor',
      '.smooth_factor_orig',
      // Quanto.
      '.weight._scale',
      '.weight._shift',
      '.weight._zeropoint',
      // Activations: compressed-tensors, modelopt, fbgemm.
      '.activation_scale',
      '.input_scale',
      '.input_scale_ub',
      '.input_global_scale',
      '.input_zero_point',
      '.output_scale',
      '.output_zero_point',
      '.pre_quant_scale',
      '.q_scale',
      '.k_scale',
      '.v_scale',
    ],
  },
  // Scales of queries, keys and values, where the attention has them and its projections the weights.
  {
    weights: KEY_PROJECTIONS.flatMap((projection) =>
      MODULE_WEIGHTS.map((weight) => `.${projection}${weight}`),
    ),
    companions: [
      '.q_scale',
      '.k_scale',
      '.v_scale',
      '.kv_scale',
      '.q_zero_point',
      '.k_zero_point',
      '.v_zero_point',
      '.attn.q_scale',
      '.attn.k_scale',
      '.attn.v_scale',
      '.attn.kv_scale',
      '.q_fake_quantizer.qscale_act',
      '.k_fake_quantizer.qscale_act',
      '.v_fake_quantizer.qscale_act',
      '.kv_fake_quantizer.qscale_act',
    ],
  },
  // bitsandbytes in 4 bits.
  { weights: [''], companions: ['.absmax', '.quant_map', '.nested_absmax', '.nested_quant_map'] },
  // MXFP4, as transformers and as OpenAI name it.
  { weights: ['_blocks'], companions: ['_scales'] },
  { weights: ['.blocks'], companions: ['.scales'] },
  // torchao, HQQ, AQLM, VPTQ, QuIP#, EXL2, EXL3, Marlin and QQQ.
  {
    weights: ['_qdata'],
    companions: [
      '_scale',
      '_zero_point',
      '_scale_and_zero',
      '_act_pre_scale',
      '_per_tensor_scale',
      '_act_per_tensor_scale',
    ],
  },
  { weights: ['.W_q'], companions: ['.scale', '.zero', '.scales', '.zeros', '.scale2'] },
  { weights: ['.codes'], companions: ['.codebooks', '.scales'] },
  {
    weights: ['.indices', '.outlier_indices'],
    companions: [
      '.centroids.weight',
      '.res_centroids.weight',
      '.outlier_centroids.weight',
      '.weight_scale',
      '.weight_bias',
    ],
  },
  { weights: ['.Qidxs'], companions: ['.SU', '.SV', '.Wscale'] },
  { weights: ['.q_weight'], companions: ['.q_scale_max'] },
  { weights: ['.trellis'], companions: ['.su', '.sv', '.suh', '.svh'] },
  { weights: ['.B'], companions: ['.s', '.s_group', '.s_channel'] },
];

/** Ends of names of weights whose bytes may be stored as a plain dtype, and the tensor beside them that says so. */
const MARKS: readonly (readonly [weight: string, mark: string])[] = [
  ['', '.quant_state.bitsandbytes__nf4'],
  ['', '.quant_state.bitsandbytes__fp4'],
  ['.W_q', '.nbits'],
  // QuIP#: integers of 64 bits.
  ['.Qidxs', '.SU'],
];

/**
 * Ends of names that say of themselves that the tensor belongs to a quantized weight, which ends in `.weight`. Where
 * that is not in the source, such as in one shard of several, the weight is taken to be packed.
 */
const CERTAIN_COMPANIONS: readonly string[] = [
  '.weight_scale',
  '.weight_scale_inv',
  '.weight_scale_2',
  '.weight_global_scale',
  '.SCB',
  '.weight.absmax',
  '.weight.quant_map',
  '.weight.nested_absmax',
  '.weight.nested_quant_map',
];

/** By the end of a companion's name: the ends of the names of weights. */
const WEIGHTS_OF: ReadonlyMap<string, readonly string[]> = weightsOfCompanions();

function weightsOfCompanions(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { weights, companions } of NAMINGS) {
    for (const companion of companions) {
      found.set(companion, [...(found.get(companion) ?? []), ...weights]);
    }
  }
  return found;
}

/**
 * The quantized weight that a tensor is needed to read: its scale, zero point, code book and the like. Of a weight
 * whose bytes are stored as a plain dtype, such as bitsandbytes' as BF16, the name itself. Null for all others,
 * weights of integers and small floats among them. A tensor that is merely called `scales` has no such weight
 * beside it. A name such as `m.weight_scale_inv` suffices where the source has no `m.weight`, whose name it gives.
 *
 * @param name the name in the file; the weight may be in another file of the checkpoint
 */
export function packedWeightOf(name: string, dtypeOf: DtypeOf): string | null {
  if (isMarked(name, dtypeOf)) return name;
  // So that a tensor of no module, such as `weight`, has the end `.weight`, too.
  const dotted = `.${name}`;
  for (const [companion, weights] of WEIGHTS_OF) {
    if (!dotted.endsWith(companion)) continue;
    const start = dotted.slice(0, -companion.length);
    for (const end of weights) {
      const weight = (start + end).slice(1);
      const dtype = weight === name ? undefined : dtypeOf(weight);
      if (dtype === undefined) continue;
      if (!PLAIN_DTYPES.has(dtype) || isMarked(weight, dtypeOf)) return weight;
    }
  }
  return missingWeightOf(name, dtypeOf);
}

/** The weight that is not in the source, by the name of its companion alone. */
function missingWeightOf(name: string, dtypeOf: DtypeOf): string | null {
  const dotted = `.${name}`;
  const end = CERTAIN_COMPANIONS.find((companion) => dotted.endsWith(companion));
  if (end === undefined) return null;
  const weight = `${dotted.slice(0, -end.length)}.weight`.slice(1);
  return dtypeOf(weight) === undefined ? weight : null;
}

/** Whether a tensor beside it says that its bytes are packed values, whatever its dtype. */
function isMarked(name: string, dtypeOf: DtypeOf): boolean {
  return MARKS.some(([end, mark]) => {
    const start = name.slice(0, name.length - end.length);
    return name.endsWith(end) && dtypeOf(start + mark) !== undefined;
  });
}
