/** Weights with a marker of ComfyUI: exactly the format that it names, or an error that names what is unknown. */

import type { Dtype } from '../../header/dtype.js';
import type { CheckpointTensors } from './checkpoint-tensors.js';
import { gridOf, matricesOf } from './grids.js';
import type { Grid, LogicalPlan, StoredTensor } from './logical-plan.js';
import type { Marker } from './markers.js';
import { invalid, shapeText, shownValue, unsupported } from './refusals.js';
import { isFloatScale, memberOf, moduleOf, planGrid } from './scaled.js';

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
  /** Scales of a weight with this number of rows: one for all is always allowed where `perTensor` is true. */
  readonly scales?: { readonly perTensor: boolean; readonly perRow: boolean };
  /** Whether it is dequantized here. */
  readonly isRead: boolean;
}

/** Keys that every format may have; `format` itself is one. The other one chooses a kernel. */
const COMMON_KEYS: readonly string[] = ['format', 'full_precision_matrix_mult'];

const ROTATION_KEYS: readonly string[] = ['convrot', 'convrot_groupsize'];

const FP8 = {
  keys: [],
  needed: ['weight_scale'],
  optional: [],
  scales: { perTensor: true, perRow: false },
  isRead: true,
} as const;

const PACKED = { keys: [], optional: [], isRead: false } as const;

const FORMATS: Readonly<Record<string, Format>> = {
  float8_e4m3fn: { ...FP8, dtypes: ['F8_E4M3'] },
  float8_e5m2: { ...FP8, dtypes: ['F8_E5M2'] },
  int8_tensorwise: {
    keys: [...ROTATION_KEYS, 'per_row'],
    dtypes: ['I8'],
    needed: ['weight_scale'],
    optional: [],
    scales: { perTensor: true, perRow: true },
    isRead: true,
  },
  nvfp4: {
    ...PACKED,
    keys: ['group_size', 'num_experts', 'orig_dtype', 'orig_shape'],
    dtypes: ['U8'],
    needed: ['weight_scale', 'weight_scale_2'],
  },
  mxfp8: {
    ...PACKED,
    keys: ['group_size', 'num_experts', 'orig_dtype', 'orig_shape'],
    dtypes: ['F8_E4M3'],
    needed: ['weight_scale'],
  },
  convrot_w4a4: {
    ...PACKED,
    keys: ['convrot_groupsize', 'linear_dtype'],
    dtypes: ['I8'],
    needed: ['weight_scale'],
    scales: { perTensor: false, perRow: true },
  },
  asym_w4a8_int8: {
    ...PACKED,
    keys: ['convrot_groupsize', 'group_size', 'num_experts'],
    dtypes: ['I8'],
    needed: ['weight_s_rel', 'weight_s_channel'],
    optional: ['weight_codebook'],
  },
  awq_w4a16: {
    ...PACKED,
    keys: ['group_size'],
    dtypes: ['I8'],
    needed: ['weight_scale', 'weight_zeros'],
  },
};

/** Columns of a rotation, by default. */
const ROTATION_LENGTH = 256;

/** Plans the weight of a module that has a marker. */
export function planMarked(
  weight: StoredTensor,
  marker: Marker,
  tensors: CheckpointTensors,
): LogicalPlan {
  const { name } = weight;
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
    throw unsupported(name, `${source} has ${describeKey(key, fields[key], given as string)}`);
  }
  const grid = format.scales === undefined ? null : gridOfMarked(weight, format, tensors);
  requireNoRotation(weight, source, fields, given as string);
  const before = tensors.member(module, 'pre_quant_scale');
  if (before !== undefined) {
    throw unsupported(name, `${JSON.stringify(before.name)}, a scale of the input, is not applied`);
  }
  if (!format.isRead || grid === null) {
    throw unsupported(name, `the format "${given}" of ComfyUI is not supported`);
  }
  return planGrid(weight, tensors.need(memberOf(module, 'weight_scale'), name), grid);
}

function describeKey(key: string, value: unknown, format: string): string {
  return `${JSON.stringify(key)}: ${shownValue(value)}, which is not supported for the format "${format}"`;
}

/** One scale for all, or one for each row. */
function gridOfMarked(
  weight: StoredTensor,
  { scales }: Format,
  tensors: CheckpointTensors,
): Grid | null {
  const { name, shape } = weight;
  const scale = tensors.need(memberOf(moduleOf(name), 'weight_scale'), name);
  if (shape.length !== 2) {
    throw invalid(name, `expected a weight of two dimensions, found ${shapeText(shape)}`);
  }
  if (!isFloatScale(scale)) {
    throw invalid(
      name,
      `expected ${JSON.stringify(scale.name)} to hold floats, found ${scale.dtype}`,
    );
  }
  const of = matricesOf(weight);
  const [rows, columns] = [Math.max(of.rows, 1), Math.max(of.columns, 1)];
  const found = scale.shape;
  const isOne = found.every((dimension) => dimension === 1);
  if (scales?.perTensor === true && isOne) return gridOf(of, [rows, columns]);
  const isRows = found[0] === of.rows && found.slice(1).every((dimension) => dimension === 1);
  if (scales?.perRow === true && found.length > 0 && found.length < 3 && isRows) {
    return gridOf(of, [1, columns]);
  }
  const needed = [
    ...(scales?.perTensor === true ? ['[]'] : []),
    ...(scales?.perRow === true ? [shapeText([of.rows])] : []),
  ].join(' or ');
  throw invalid(
    name,
    `${JSON.stringify(scale.name)} has shape ${shapeText(found)}, expected ${needed}`,
  );
}

/** Rejects weights in a rotated basis, and rotations that are none. */
function requireNoRotation(
  { name, shape }: StoredTensor,
  source: string,
  fields: Marker['fields'],
  format: string,
): void {
  const { convrot = false, convrot_groupsize: length = ROTATION_LENGTH } = fields;
  if (typeof convrot !== 'boolean') {
    throw invalid(name, `${source} has "convrot": ${shownValue(convrot)}, expected true or false`);
  }
  if (!convrot) return;
  const columns = shape.at(-1) ?? 0;
  const isPower =
    typeof length === 'number' && length >= 4 && Number.isInteger(Math.log2(length) / 2);
  if (!isPower || columns % length !== 0) {
    throw invalid(
      name,
      `${source} has "convrot_groupsize": ${shownValue(length)}, expected a power of 4 that divides ${columns} columns`,
    );
  }
  throw unsupported(name, `${source} has ${describeKey('convrot', convrot, format)}`);
}

/** Last parts of the names of the tensors that belong to a marked weight, whatever its format. */
export const MARKED_MEMBERS: ReadonlySet<string> = new Set(
  Object.values(FORMATS).flatMap(({ needed, optional }) => [...needed, ...optional]),
);
