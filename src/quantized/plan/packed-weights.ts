/**
 * Finds the tensors of quantized weights by names and dtypes: a weight is quantized exactly when its companions are
 * next to it. No configuration is more reliable.
 */

import type { Dtype } from '../../header/dtype.js';

/** Returns the dtype of a tensor in any file of the checkpoint; undefined for an unknown name. */
type DtypeOf = (name: string) => string | undefined;

/**
 * Dtypes of plain values: a weight in one of these is packed only if a tensor next to it says so. Integers of 64 bits
 * are ids, positions and counts.
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

/** A naming scheme of packed weights and their companions. */
interface Naming {
  /** Endings of the names of packed weights. */
  readonly weights: readonly string[];
  /** Endings of their companions' names, after the same beginning. */
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

/** The key projections of an attention; `wk` and `wkv_b` in Mistral's own files. */
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
  // Companions that a module has once, for its weight or its activations.
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
      // ComfyUI's formats of 4 bits, ModelSlim.
      '.weight_zeros',
      '.weight_codebook',
      '.weight_s_rel',
      '.weight_s_channel',
      '.weight_offset',
      '.deq_scale',
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

/** Returns whether any tensor of the checkpoint may have a name that ends so after its last dot. */
type HasMember = (member: string) => boolean;

/** Endings of weights whose packed bytes may be stored as a plain dtype, with the companion that says so. */
const MARKS: readonly (readonly [weight: string, mark: string, member: string])[] = [
  ['', '.quant_state.', 'bitsandbytes__nf4'],
  ['', '.quant_state.', 'bitsandbytes__fp4'],
  ['.W_q', '.', 'nbits'],
  // QuIP#: integers of 64 bits.
  ['.Qidxs', '.', 'SU'],
];

/**
 * Endings that by themselves mean a companion of a quantized weight, whose name ends in `.weight`. When the weight is
 * not in the source (one shard of several), it is assumed to be packed.
 */
const CERTAIN_COMPANIONS: readonly string[] = [
  '.weight_scale',
  '.weight_scale_inv',
  '.weight_scale_2',
  '.weight_global_scale',
  '.weight_zero_point',
  '.SCB',
  '.weight.absmax',
  '.weight.quant_map',
  '.weight.nested_absmax',
  '.weight.nested_quant_map',
];

/** Endings of weights by the ending of their companion. Set at the first use: importing the package loads this. */
let weightsOf: ReadonlyMap<string, readonly string[]> | undefined;

function weightsOfCompanions(): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const { weights, companions } of NAMINGS) {
    for (const companion of companions) {
      found.set(companion, [...(found.get(companion) ?? []), ...weights]);
    }
  }
  return found;
}

/** What names with a common last part may end with. */
interface Endings {
  /** Endings of companions, each with those of its weights. */
  readonly companions: readonly (readonly [companion: string, weights: readonly string[]])[];
  /** Those of `CERTAIN_COMPANIONS`. */
  readonly certain: readonly string[];
}

/** By the last part of a name: a checkpoint has few. */
const endingsByPart = new Map<string, Endings>();

/** Untrusted names may have a different last part each. */
const MAX_PARTS = 1000;

function endingsOf(name: string): Endings {
  const part = name.slice(name.lastIndexOf('.') + 1);
  const known = endingsByPart.get(part);
  if (known !== undefined) return known;
  const mayEnd = (ending: string): boolean => {
    const dot = ending.lastIndexOf('.');
    return dot === -1 ? part.endsWith(ending) : part === ending.slice(dot + 1);
  };
  weightsOf ??= weightsOfCompanions();
  const endings = {
    companions: [...weightsOf].filter(([companion]) => mayEnd(companion)),
    certain: CERTAIN_COMPANIONS.filter(mayEnd),
  };
  if (endingsByPart.size >= MAX_PARTS) endingsByPart.clear();
  endingsByPart.set(part, endings);
  return endings;
}

/**
 * Returns the name of the quantized weight that a tensor belongs to, as its scale, zero point, code book and the
 * like; for a packed weight stored as a plain dtype, such as BF16 of bitsandbytes, the name itself. Null for all
 * other tensors, including weights of integers and small floats, and a tensor that is merely called `scales` without
 * a weight next to it. A name such as `m.weight_scale_inv` is enough when the source has no `m.weight`, whose name is
 * returned.
 *
 * @param name the name in the file; the weight may be in another file of the checkpoint
 * @param hasMember saves looking for companions that no tensor of the checkpoint has
 */
export function packedWeightOf(
  name: string,
  dtypeOf: DtypeOf,
  hasMember: HasMember = () => true,
): string | null {
  if (isMarked(name, dtypeOf, hasMember)) return name;
  const { companions, certain } = endingsOf(name);
  if (companions.length === 0 && certain.length === 0) return null;
  // So that a tensor outside of modules, such as `weight`, has the ending `.weight`, too.
  const dotted = `.${name}`;
  for (const [companion, weights] of companions) {
    if (!dotted.endsWith(companion)) continue;
    const start = dotted.slice(0, -companion.length);
    for (const end of weights) {
      const weight = (start + end).slice(1);
      const dtype = weight === name ? undefined : dtypeOf(weight);
      if (dtype === undefined) continue;
      if (!PLAIN_DTYPES.has(dtype) || isMarked(weight, dtypeOf, hasMember)) return weight;
    }
  }
  return missingWeightOf(dotted, certain, dtypeOf);
}

/** Returns the name of a weight missing from the source, from its companion's name alone. */
function missingWeightOf(
  dotted: string,
  certain: readonly string[],
  dtypeOf: DtypeOf,
): string | null {
  const end = certain.find((companion) => dotted.endsWith(companion));
  if (end === undefined) return null;
  const weight = `${dotted.slice(0, -end.length)}.weight`.slice(1);
  return dtypeOf(weight) === undefined ? weight : null;
}

/** Whether a tensor next to it marks its bytes as packed values, whatever its dtype. */
function isMarked(name: string, dtypeOf: DtypeOf, hasMember: HasMember): boolean {
  for (const [end, mark, member] of MARKS) {
    if (!name.endsWith(end) || !hasMember(member)) continue;
    const start = name.slice(0, name.length - end.length);
    if (dtypeOf(start + mark + member) !== undefined) return true;
  }
  return false;
}
