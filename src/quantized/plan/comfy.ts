/** Weights with a marker of ComfyUI: exactly the format that it names, or an error that names what is unknown. */

import type { Dtype } from '../../header/dtype.js';
import type { CheckpointTensors } from './checkpoint-tensors.js';
import {
  planAwq,
  planBlocked,
  planEightBits,
  planNvfp4,
  planRotatedFour,
  planRotatedGroups,
  planTiledFp8,
} from './comfy-layouts.js';
import type { MarkedWeight } from './comfy-requirements.js';
import type { LogicalPlan, StoredTensor } from './logical-plan.js';
import type { Marker } from './markers.js';
import { memberOf, moduleOf } from './scaled.js';
import { formatShape, invalid, shownValue, unsupported } from './unsupported.js';

/** A format that ComfyUI or its tools write. */
interface Format {
  /** Keys of the marker besides those of every format. */
  readonly keys: readonly string[];
  /** Dtypes of the weight. */
  readonly dtypes: readonly Dtype[];
  /** Last parts of the names of the tensors that it needs besides the weight. */
  readonly needed: readonly string[];
  /** Further tensors that it may have. */
  readonly optional: readonly string[];
  plan(marked: MarkedWeight): LogicalPlan;
}

/** Keys that every format may have; `format` itself is one. The other one chooses a kernel. */
const COMMON_KEYS: readonly string[] = ['format', 'full_precision_matrix_mult'];

const SCALED = { needed: ['weight_scale'], optional: [] } as const;

/** What convert_to_quant adds to formats that pad. */
const PADDED_KEYS: readonly string[] = ['group_size', 'num_experts', 'orig_dtype', 'orig_shape'];

const FP8 = {
  ...SCALED,
  keys: ['num_experts'],
  // ComfyUI names all layers of older files E4M3: the dtype is what they have.
  dtypes: ['F8_E4M3', 'F8_E5M2'],
  plan: planEightBits,
} as const;

const FORMATS: Readonly<Record<string, Format>> = {
  float8_e4m3fn: FP8,
  float8_e5m2: FP8,
  float8_e4m3fn_rowwise: { ...SCALED, keys: [], dtypes: ['F8_E4M3'], plan: planEightBits },
  float8_e4m3fn_blockwise: {
    ...SCALED,
    keys: ['group_size'],
    dtypes: ['F8_E4M3'],
    plan: planBlocked,
  },
  int8_blockwise: { ...SCALED, keys: ['group_size'], dtypes: ['I8'], plan: planBlocked },
  int8_tensorwise: {
    ...SCALED,
    keys: ['convrot', 'convrot_groupsize', 'num_experts', 'per_row'],
    dtypes: ['I8'],
    plan: planEightBits,
  },
  nvfp4: {
    keys: PADDED_KEYS,
    dtypes: ['U8'],
    needed: ['weight_scale', 'weight_scale_2'],
    optional: ['pre_quant_scale'],
    plan: planNvfp4,
  },
  mxfp8: { ...SCALED, keys: PADDED_KEYS, dtypes: ['F8_E4M3'], plan: planTiledFp8 },
  convrot_w4a4: {
    ...SCALED,
    keys: ['convrot_groupsize', 'linear_dtype'],
    dtypes: ['I8'],
    plan: planRotatedFour,
  },
  asym_w4a8_int8: {
    keys: ['convrot_groupsize', 'group_size', 'num_experts'],
    dtypes: ['I8'],
    needed: ['weight_s_rel', 'weight_s_channel'],
    optional: ['weight_codebook'],
    plan: planRotatedGroups,
  },
  awq_w4a16: {
    keys: ['group_size'],
    dtypes: ['I8'],
    needed: ['weight_scale', 'weight_zeros'],
    optional: [],
    plan: planAwq,
  },
};

/** Plans the weight of a module that has a marker. */
export function planMarked(
  weight: StoredTensor,
  marker: Marker,
  tensors: CheckpointTensors,
): LogicalPlan {
  const { name, shape } = weight;
  const { source, fields, problem } = marker;
  if (problem !== null) throw problem;
  const { format: given } = fields;
  const format =
    typeof given === 'string' && Object.hasOwn(FORMATS, given) ? FORMATS[given] : undefined;
  if (format === undefined) {
    const found = given === undefined ? 'names no format' : `names the format ${shownValue(given)}`;
    throw unsupported(name, `${source} ${found}, which is not supported`);
  }
  if (!format.dtypes.includes(weight.dtype)) {
    const dtypes = format.dtypes.join(' or ');
    throw invalid(
      name,
      `${source} names the format "${given}", whose weights are ${dtypes}, found ${weight.dtype}`,
    );
  }
  const module = moduleOf(name);
  for (const member of format.needed) tensors.need(memberOf(module, member), name);
  const known = [...COMMON_KEYS, ...format.keys];
  const key = Object.keys(fields).find((one) => !known.includes(one));
  if (key !== undefined) {
    const found = `${JSON.stringify(key)}: ${shownValue(fields[key])}`;
    throw unsupported(
      name,
      `${source} has ${found}, which is not supported for the format "${given}"`,
    );
  }
  const { num_experts: experts } = fields;
  const isBank = experts !== undefined && experts !== null;
  if (shape.length !== (isBank ? 3 : 2) || (isBank && shape[0] !== experts)) {
    const expected = isBank
      ? `three dimensions, the first one ${shownValue(experts)} (num_experts)`
      : 'two dimensions';
    throw invalid(name, `expected a weight of ${expected}, found ${formatShape(shape)}`);
  }
  const before = tensors.member(module, 'pre_quant_scale');
  if (before !== undefined && !format.optional.includes('pre_quant_scale')) {
    throw unsupported(name, `${JSON.stringify(before.name)}, a scale of the input, is not applied`);
  }
  const find = (member: string): StoredTensor | undefined => tensors.member(module, member);
  return format.plan({ weight, source, fields, find });
}

/** Last parts of the names of the tensors that belong to a marked weight, whatever its format. */
export const MARKED_MEMBERS: ReadonlySet<string> = new Set(
  Object.values(FORMATS).flatMap(({ needed, optional }) => [...needed, ...optional]),
);
