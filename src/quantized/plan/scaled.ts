/**
 * Weights of one byte per value with scales: FP8 in all spellings, compressed-tensors' float and int formats, MXFP8,
 * bitsandbytes' int8.
 */

import type { Dtype } from '../../header/dtype.js';
import type { CheckpointTensors } from './checkpoint-tensors.js';
import { type Configuration, countOf, isGroupOrder } from './configuration.js';
import {
  type Block,
  findGrid,
  gridOf,
  groupGrid,
  hasGrid,
  type Matrices,
  matricesOf,
} from './groups.js';
import {
  type Grid,
  type LogicalPlan,
  namesOf,
  rowLayout,
  type StoredTensor,
  type Zero,
} from './logical-plan.js';
import { formatShape, invalid, shownValue, unsupported } from './unsupported.js';

/** Columns that share an exponent in the MX formats. */
const MX_GROUP_LENGTH = 32;

/** bitsandbytes divides by 127 in this way. */
const INT8_FACTOR = Math.fround(0.007874015718698502);

/** Scales that a module has for its weight: of DeepSeek-V4, Mistral, ComfyUI and musubi-tuner. */
const MODULE_SCALES: readonly string[] = ['scale', 'qscale_weight', 'scale_weight'];

/** The part of a name before `.weight`. */
export function moduleOf(name: string): string {
  if (!name.endsWith('.weight')) return name === 'weight' ? '' : name;
  return name.slice(0, -'.weight'.length);
}

/** The name of a module's tensor. */
export function memberOf(module: string, member: string): string {
  return module === '' ? member : `${module}.${member}`;
}

/** Scales of a weight, whatever they are called; more than one is too many. */
export function scalesOf(name: string, tensors: CheckpointTensors): StoredTensor[] {
  const scales: (StoredTensor | undefined)[] = [
    tensors.suffixed(name, '_scale_inv'),
    tensors.suffixed(name, '_scale'),
  ];
  if (name === 'weight' || name.endsWith('.weight')) {
    const module = moduleOf(name);
    for (const member of MODULE_SCALES) scales.push(tensors.member(module, member));
  }
  return scales.filter((scale) => scale !== undefined);
}

/** Plans a weight of FP8 or I8 with what {@link scalesOf} found: one scale. */
export function planScaled(
  weight: StoredTensor,
  [scale, otherScale]: readonly StoredTensor[],
  tensors: CheckpointTensors,
  configuration: Configuration,
): LogicalPlan {
  const { name } = weight;
  if (scale === undefined) throw invalid(name, 'no scale is there');
  if (otherScale !== undefined) {
    const both = [scale, otherScale].map((one) => JSON.stringify(one.name)).join(' and ');
    throw invalid(name, `both ${both} are there: expected one scale`);
  }
  const isExponents = scale.dtype === 'U8' || scale.dtype === 'F8_E8M0';
  if (!isExponents && !isFloatScale(scale)) {
    throw invalid(
      name,
      `expected ${JSON.stringify(scale.name)} to hold floats, found ${scale.dtype}`,
    );
  }
  requireDtype(weight, configuration);
  const of = matricesOf(weight);
  const grid = gridOfScale(weight, of, scale, configuration, isExponents);
  requireConfigured(name, tensors, configuration);
  return planGrid(weight, scale, grid, {
    zero: zeroOf(name, grid, tensors),
    columnGroups: columnGroupsOf(name, of, grid, tensors),
  });
}

/** Names that configurations give to FP8, and its dtype. */
const FP8_NAMES: Readonly<Record<string, Dtype>> = {
  e4m3: 'F8_E4M3',
  e4m3fn: 'F8_E4M3',
  float8_e4m3fn: 'F8_E4M3',
  e5m2: 'F8_E5M2',
  float8_e5m2: 'F8_E5M2',
  e4m3fnuz: 'F8_E4M3FNUZ',
  float8_e4m3fnuz: 'F8_E4M3FNUZ',
};

/** Throws for codes of another type than the configuration declares. */
function requireDtype({ name, dtype }: StoredTensor, configuration: Configuration): void {
  const { method, fields, groupOf } = configuration;
  if (dtype !== 'I8' && method === 'fp8') {
    const { fmt } = fields;
    const declared = typeof fmt === 'string' ? fmt.toLowerCase() : fmt;
    if (declared === undefined || declared === null) return;
    const expected = Object.hasOwn(FP8_NAMES, String(declared))
      ? FP8_NAMES[String(declared)]
      : null;
    if (expected === dtype) return;
    throw invalid(name, `the configuration has the fmt ${shownValue(fmt)}, found ${dtype} codes`);
  }
  if (method !== 'compressed-tensors') return;
  const type = groupOf(moduleOf(name))?.weights['type'];
  if (type !== undefined && type !== null && type !== (dtype === 'I8' ? 'int' : 'float')) {
    throw invalid(name, `the configuration has the type ${shownValue(type)}, found ${dtype} codes`);
  }
}

/** Whether a scale holds floats. */
export function isFloatScale({ dtype }: StoredTensor): boolean {
  return ['F32', 'BF16', 'F16', 'F64'].includes(dtype);
}

/**
 * Throws unless the tensors are there that the configuration of compressed-tensors requires: without zero points or
 * the order of columns the values would be others.
 */
export function requireConfigured(
  name: string,
  tensors: CheckpointTensors,
  { method, groupOf }: Configuration,
): void {
  if (method !== 'compressed-tensors') return;
  const { symmetric, actorder } = groupOf(moduleOf(name))?.weights ?? {};
  if (symmetric === false) tensors.need(`${name}_zero_point`, name);
  if (isGroupOrder(actorder)) tensors.need(`${name}_g_idx`, name);
}

/** What a weight may have besides codes and scales. */
interface GridParts {
  readonly zero: Extract<Zero, { kind: 'grid' }> | null;
  /** The group of each column. */
  readonly columnGroups: StoredTensor | null;
}

/** Plans a weight of a byte per value whose scales lie in this grid. */
export function planGrid(
  weight: StoredTensor,
  scale: StoredTensor,
  grid: Grid,
  { zero, columnGroups }: GridParts = { zero: null, columnGroups: null },
): LogicalPlan {
  const { name, shape, dtype } = weight;
  const of = matricesOf(weight);
  const isExponents = !isFloatScale(scale);
  const isInt = dtype === 'I8';
  const isMx = isExponents && grid.blockRows === 1 && grid.blockColumns === MX_GROUP_LENGTH;
  return {
    name,
    shape,
    scheme: isInt ? 'int8' : isMx ? 'mxfp8' : 'fp8',
    bits: 8,
    block: blockOf(grid, of),
    storedAs: namesOf({
      weight,
      scale,
      zeroPoint: zero?.tensor,
      columnGroups: columnGroups ?? undefined,
    }),
    layout: rowLayout({
      codes: weight,
      packing: { kind: 'elements', dtype },
      grid,
      scale: { tensor: scale, dtype: isExponents ? 'F8_E8M0' : scale.dtype },
      zero,
      columnGroups,
    }),
  };
}

/** Rows and columns that share a scale; null when all do. */
export function blockOf({ blockRows, blockColumns }: Grid, of: Matrices): readonly number[] | null {
  if (blockRows >= of.rows && blockColumns >= of.columns) return null;
  return Object.freeze([blockRows, blockColumns]);
}

function gridOfScale(
  weight: StoredTensor,
  of: Matrices,
  scale: StoredTensor,
  configuration: Configuration,
  isExponents: boolean,
): Grid {
  const mx: Block = [1, MX_GROUP_LENGTH];
  if (scale.name === memberOf(moduleOf(weight.name), 'scale_weight')) {
    return gridOfScaleWeight(weight, of, scale);
  }
  if (configuration.method === 'compressed-tensors') {
    const weights = configuration.groupOf(moduleOf(weight.name))?.weights;
    const strategy = weights?.['strategy'];
    if (strategy === 'group') {
      const length = countOf(weights?.['group_size']);
      const grid = length === undefined ? null : groupGrid(of, length);
      if (grid !== null && hasGrid(scale.shape, grid)) return grid;
      throw wrongGroups(weight, scale, weights?.['group_size']);
    }
    const block =
      strategy === 'block' ? blockStructureOf(weight.name, weights?.['block_structure']) : null;
    return findGrid(weight, of, scale, { block, common: isExponents ? [mx] : [] });
  }
  // MXFP8 is a format of its own: the default of 128 x 128 is not meant for exponents of U8.
  if (scale.dtype === 'U8' && !('weight_block_size' in configuration.fields)) {
    return findGrid(weight, of, scale, { block: mx, common: [] });
  }
  const common: Block[] = [...(isExponents ? [mx] : []), [128, 128]];
  return findGrid(weight, of, scale, { block: configuration.blockSize, common });
}

/** `scale_weight`: one for all, for each row, or for blocks of columns of each row, with a last dimension of 1. */
function gridOfScaleWeight(weight: StoredTensor, of: Matrices, scale: StoredTensor): Grid {
  const [rows = 1, blocks = 1, last = 1, ...more] = scale.shape;
  const isFlat = weight.shape.length === 2 && last === 1 && more.length === 0;
  if (isFlat && rows === 1 && blocks === 1 && of.rows !== 1) {
    return gridOf(of, [Math.max(of.rows, 1), Math.max(of.columns, 1)]);
  }
  const isBlocks = scale.shape.length === 3 || blocks === 1;
  if (isFlat && isBlocks && rows === of.rows && blocks > 0 && of.columns % blocks === 0) {
    return gridOf(of, [1, Math.max(of.columns / blocks, 1)]);
  }
  throw invalid(
    weight.name,
    `${JSON.stringify(scale.name)} has shape ${formatShape(scale.shape)}, expected [], ${formatShape([of.rows, 1])} or ` +
      `${formatShape([of.rows])} with blocks of columns`,
  );
}

/** The error for scales that don't fit the groups of the configuration. */
export function wrongGroups(weight: StoredTensor, scale: StoredTensor, length: unknown): Error {
  const found = JSON.stringify(length ?? null).slice(0, 100);
  return invalid(
    weight.name,
    `${JSON.stringify(scale.name)} of shape ${formatShape(scale.shape)} does not fit groups of ${found} columns ` +
      `(group_size) of ${formatShape(weight.shape)}`,
  );
}

function blockStructureOf(weight: string, given: unknown): Block {
  const parts = typeof given === 'string' ? given.split('x').map(Number) : given;
  const [rows, columns, ...more] = Array.isArray(parts) ? parts.map(countOf) : [];
  if (rows !== undefined && columns !== undefined && more.length === 0) return [rows, columns];
  const found = JSON.stringify(given ?? null).slice(0, 100);
  throw invalid(weight, `block_structure must be two positive integers, found ${found}`);
}

/** The zero points of a weight, as many as there are scales; null without them. */
function zeroOf(
  name: string,
  grid: Grid,
  tensors: CheckpointTensors,
): Extract<Zero, { kind: 'grid' }> | null {
  const tensor = tensors.suffixed(name, '_zero_point');
  if (tensor === undefined) return null;
  if (tensor.dtype === 'I8' && hasGrid(tensor.shape, grid)) return { kind: 'grid', tensor };
  throw invalid(
    name,
    `expected zero points of I8, as many as scales, found ${JSON.stringify(tensor.name)}: ${tensor.dtype} of shape ` +
      formatShape(tensor.shape),
  );
}

/** The group of each column; null unless they were reordered. A single group has its list too: it may name others. */
export function columnGroupsOf(
  name: string,
  of: Matrices,
  grid: Grid,
  tensors: CheckpointTensors,
): StoredTensor | null {
  const tensor = tensors.suffixed(name, '_g_idx');
  if (tensor === undefined) return null;
  const isSimple = grid.columns <= 1 || (of.matrices === 1 && grid.blockRows === 1);
  if (isSimple && tensor.dtype === 'I32' && hasColumns(tensor, of)) return tensor;
  throw invalid(
    name,
    `expected ${JSON.stringify(tensor.name)} to be I32 of shape [${of.columns}], for groups of columns; found ` +
      `${tensor.dtype} of shape ${formatShape(tensor.shape)}`,
  );
}

function hasColumns({ shape }: StoredTensor, { columns }: Matrices): boolean {
  return shape.length === 1 && shape[0] === columns;
}

/** Plans a weight of bitsandbytes' int8. */
export function planInt8(weight: StoredTensor, tensors: CheckpointTensors): LogicalPlan {
  const { name, shape } = weight;
  const scale = tensors.need(memberOf(moduleOf(name), 'SCB'), name);
  const of = matricesOf(weight);
  const grid = gridOf(of, [1, Math.max(of.columns, 1)]);
  if (scale.dtype !== 'F32' || of.matrices !== 1 || !hasGrid(scale.shape, grid)) {
    throw invalid(
      name,
      `expected ${JSON.stringify(scale.name)} to be F32 of shape [${of.rows}], found ${scale.dtype} of shape ` +
        formatShape(scale.shape),
    );
  }
  const format = tensors.find(memberOf(moduleOf(name), 'weight_format'));
  if (format !== undefined && tensors.bytesOf(format, name).some((byte) => byte !== 0)) {
    throw unsupported(name, 'bitsandbytes stored it in the order of a GPU; only row order is read');
  }
  return {
    name,
    shape,
    scheme: 'bitsandbytes-int8',
    bits: 8,
    block: [1, of.columns],
    storedAs: namesOf({ weight, scale, format }),
    layout: rowLayout({
      codes: weight,
      packing: { kind: 'elements', dtype: 'I8' },
      grid,
      scale: { tensor: scale, dtype: 'F32' },
      factor: INT8_FACTOR,
    }),
  };
}
