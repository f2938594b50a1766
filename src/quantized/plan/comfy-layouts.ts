/** The layouts of ComfyUI's formats: which shapes and dtypes their tensors have, and how values come from them. */

import type { Dtype } from '../../header/dtype.js';
import {
  croppedShape,
  declaredRotation,
  groupLength,
  type MarkedWeight,
  need,
  requireShape,
  rotationOf,
  tiledGrid,
  wrongShape,
} from './comfy-requirements.js';
import { countOf } from './configuration.js';
import { gridOf, type Matrices, matricesOf } from './groups.js';
import {
  type Grid,
  type LogicalPlan,
  namesOf,
  type Packing,
  type Rotation,
  rowLayout,
  type StoredTensor,
} from './logical-plan.js';
import { blockOf } from './scaled.js';
import { formatShape, invalid, shownValue, unsupported } from './unsupported.js';

/** Columns that share a scale, and to whose multiples rows and columns are padded. */
const NVFP4_LENGTH = 16;
const MXFP8_LENGTH = 32;

/** Columns that share a scale where the marker has no number. */
const W4A8_LENGTH = 16;
const AWQ_LENGTH = 64;

const FLOATS: readonly Dtype[] = ['F32', 'BF16', 'F16'];
const E4M3: readonly Dtype[] = ['F8_E4M3', 'U8'];
const EXPONENTS: readonly Dtype[] = ['F8_E8M0', 'U8'];

/** FP8 and int8: one scale for all, for each expert, or for each row; int8 may be rotated. */
export function planEightBits(marked: MarkedWeight): LogicalPlan {
  const { weight, fields } = marked;
  const scale = need(marked, 'weight_scale', FLOATS);
  const of = matricesOf(weight);
  const isInt = weight.dtype === 'I8';
  const isRowwise = fields['format'] === 'float8_e4m3fn_rowwise';
  const isRows = isInt || isRowwise;
  const full = weight.shape.slice(0, isRows ? -1 : -2);
  const found = formatShape(scale.shape);
  const isOne = !isRowwise && scale.shape.every((dimension) => dimension === 1);
  const isFull = found === formatShape(full) || (isRows && found === formatShape([...full, 1]));
  if (!isOne && !isFull) throw wrongShape(marked, scale, full, !isRowwise);
  const columns = Math.max(of.columns, 1);
  const grid = isOne
    ? { ...gridOf(of, [Math.max(of.rows, 1), columns]), matrices: 1 }
    : gridOf(of, [isRows ? 1 : Math.max(of.rows, 1), columns]);
  const rotation = isInt ? declaredRotation(marked, of.columns) : null;
  return planOf(marked, of, {
    scheme: isInt ? (rotation === null ? 'int8' : 'int8-convrot') : 'fp8',
    packing: { kind: 'elements', dtype: weight.dtype },
    grid,
    scale,
    rotation,
  });
}

/** FP8 and int8 of convert_to_quant with a scale for each square block. */
export function planBlocked(marked: MarkedWeight): LogicalPlan {
  const { weight, source, fields } = marked;
  const scale = need(marked, 'weight_scale', FLOATS);
  const of = matricesOf(weight);
  const length = countOf(fields['group_size']);
  if (length === undefined || of.rows % length !== 0 || of.columns % length !== 0) {
    const found = shownValue(fields['group_size']);
    throw invalid(
      weight.name,
      `${source} has "group_size": ${found}, expected blocks that divide ${formatShape(weight.shape)}`,
    );
  }
  const grid = gridOf(of, [length, length]);
  requireShape(marked, scale, [grid.rows, grid.columns]);
  const packing = { kind: 'elements', dtype: weight.dtype } as const;
  const scheme = weight.dtype === 'I8' ? 'int8' : 'fp8';
  return planOf(marked, of, { scheme, packing, grid, scale });
}

/** NVFP4: E2M1 with scales of E4M3 in tiles, and one for all or for each expert. */
export function planNvfp4(marked: MarkedWeight): LogicalPlan {
  const { weight, find } = marked;
  const scale = need(marked, 'weight_scale', E4M3);
  const global = need(marked, 'weight_scale_2', ['F32']);
  const packed = matricesOf(weight);
  const of = { ...packed, columns: packed.columns * 2 };
  const grid = tiledGrid(marked, of, scale, NVFP4_LENGTH);
  const isOne = global.shape.every((dimension) => dimension === 1);
  if (!isOne) requireShape(marked, global, weight.shape.slice(0, -2));
  const { shape, padded } = croppedShape(marked, of, NVFP4_LENGTH);
  const columnFactors = find('pre_quant_scale') ?? null;
  if (columnFactors !== null) {
    need(marked, 'pre_quant_scale', FLOATS);
    requireShape(marked, columnFactors, [shape.at(-1) ?? 0]);
  }
  return planOf(marked, of, {
    scheme: 'nvfp4',
    packing: { kind: 'e2m1', first: 'high' },
    grid,
    scale,
    scaleDtype: 'F8_E4M3',
    isTiled: true,
    global,
    shape,
    padded,
    columnFactors,
  });
}

/** MXFP8: E4M3 with exponents in tiles. */
export function planTiledFp8(marked: MarkedWeight): LogicalPlan {
  const { weight } = marked;
  const scale = need(marked, 'weight_scale', EXPONENTS);
  const of = matricesOf(weight);
  const grid = tiledGrid(marked, of, scale, MXFP8_LENGTH);
  return planOf(marked, of, {
    scheme: 'mxfp8',
    packing: { kind: 'elements', dtype: weight.dtype },
    grid,
    scale,
    scaleDtype: 'F8_E8M0',
    isTiled: true,
    ...croppedShape(marked, of, MXFP8_LENGTH),
  });
}

/** W4A4: rotated rows of signed integers with a scale each. */
export function planRotatedFour(marked: MarkedWeight): LogicalPlan {
  const { weight, source, fields } = marked;
  const { linear_dtype: product = 'int4' } = fields;
  if (product !== 'int4' && product !== 'int8') {
    const found = `"linear_dtype": ${shownValue(product)}`;
    throw unsupported(weight.name, `${source} has ${found}, expected "int4" or "int8"`);
  }
  const scale = need(marked, 'weight_scale', ['F32']);
  const of = unpacked(weight);
  const rotation = rotationOf(marked, of.columns);
  requireShape(marked, scale, [of.rows]);
  return planOf(marked, of, {
    scheme: 'convrot_w4a4',
    packing: { kind: 'nibbles', numbers: 'signed' },
    grid: gridOf(of, [1, Math.max(of.columns, 1)]),
    scale,
    rotation,
  });
}

/** W4A8: groups of codes that become integers of 8 bits, in rotated rows with a scale each. */
export function planRotatedGroups(marked: MarkedWeight): LogicalPlan {
  const { weight, find } = marked;
  const scale = need(marked, 'weight_s_rel', [...E4M3, 'F32']);
  const rowScale = need(marked, 'weight_s_channel', ['F32']);
  const codeBook = find('weight_codebook');
  const of = unpacked(weight);
  const length = groupLength(marked, W4A8_LENGTH, of.columns);
  const rotation = rotationOf(marked, of.columns, rowScale);
  const grid = gridOf(of, [1, length]);
  requireShape(marked, scale, [...weight.shape.slice(0, -1), grid.columns]);
  requireShape(marked, rowScale, weight.shape.slice(0, -1));
  if (codeBook !== undefined) {
    need(marked, 'weight_codebook', ['F32']);
    requireShape(marked, codeBook, [16]);
  }
  return planOf(marked, of, {
    scheme: 'asym_w4a8_int8',
    packing: { kind: 'nibbles', numbers: codeBook ?? 'offset' },
    grid,
    scale,
    scaleDtype: scale.dtype === 'F32' ? 'F32' : 'F8_E4M3',
    rotation,
  });
}

/** AWQ of nunchaku's layers: groups of codes with scales and numbers to add, both with exchanged axes. */
export function planAwq(marked: MarkedWeight): LogicalPlan {
  const { weight } = marked;
  const scale = need(marked, 'weight_scale', FLOATS);
  const bias = need(marked, 'weight_zeros', FLOATS);
  const of = unpacked(weight);
  const grid = gridOf(of, [1, groupLength(marked, AWQ_LENGTH, of.columns)]);
  for (const tensor of [scale, bias]) requireShape(marked, tensor, [grid.columns, of.rows]);
  return planOf(marked, of, {
    scheme: 'awq_w4a16',
    packing: { kind: 'nibbles', numbers: 'offset' },
    grid,
    scale,
    bias,
  });
}

/** What a format adds to a weight and its scales. */
interface Parts {
  readonly scheme: string;
  readonly packing: Packing;
  readonly grid: Grid;
  readonly scale: StoredTensor;
  /** The dtype as which scales are read; by default their own. */
  readonly scaleDtype?: Dtype;
  readonly isTiled?: boolean;
  readonly global?: StoredTensor;
  readonly bias?: StoredTensor;
  readonly rotation?: Rotation | null;
  readonly columnFactors?: StoredTensor | null;
  /** The shape of the values; by default all of the stored ones. */
  readonly shape?: readonly number[];
  readonly padded?: { readonly rows: number; readonly columns: number } | null;
}

function planOf({ weight }: MarkedWeight, of: Matrices, parts: Parts): LogicalPlan {
  const { scheme, packing, grid, scale, bias, global, rotation, columnFactors } = parts;
  const { shape = [...weight.shape.slice(0, -1), of.columns] } = parts;
  const codeBook =
    packing.kind === 'nibbles' && typeof packing.numbers === 'object' ? packing.numbers : null;
  return {
    name: weight.name,
    shape,
    scheme,
    bits: packing.kind === 'elements' ? 8 : 4,
    block: blockOf(grid, of),
    storedAs: namesOf({
      weight,
      scale,
      globalScale: global,
      bias,
      codeBook,
      rowScale: rotation?.rowScale,
      inputScale: columnFactors,
    }),
    layout: rowLayout({
      codes: weight,
      packing,
      grid,
      scale: { tensor: scale, dtype: parts.scaleDtype ?? scale.dtype },
      order: parts.isTiled === true ? 'tiles' : bias === undefined ? 'rows' : 'columns',
      global: global === undefined ? null : { tensor: global, divides: false },
      bias: bias ?? null,
      rotation: rotation ?? null,
      columnFactors: columnFactors ?? null,
      padded: parts.padded ?? null,
    }),
  };
}

/** The matrices of a weight with two codes a byte. */
function unpacked(weight: StoredTensor): Matrices {
  const of = matricesOf(weight);
  return { ...of, columns: of.columns * 2 };
}
