/** Weights whose rows are streams of bits in words of 32: compressed-tensors' pack-quantized, and MLX. */

import type { CheckpointTensors } from './checkpoint-tensors.js';
import { type Configuration, countOf, fieldsOf, textOf } from './configuration.js';
import { findGrid, gridOf, groupGrid, hasGrid, matricesOf } from './groups.js';
import {
  type Grid,
  type LogicalPlan,
  namesOf,
  type Packing,
  rowLayout,
  type StoredTensor,
  type Zero,
} from './logical-plan.js';
import { blockOf, columnGroupsOf, moduleOf, requireConfigured, wrongGroups } from './scaled.js';
import { formatShape, invalid, unsupported } from './unsupported.js';

type Bits = Extract<Packing, { kind: 'bits' }>;

/** Plans `weight_packed` of I32 of compressed-tensors; `name` is the logical name. */
export function planPacked(
  name: string,
  codes: StoredTensor,
  tensors: CheckpointTensors,
  configuration: Configuration,
): LogicalPlan {
  const group = configuration.groupOf(moduleOf(name));
  const format = group?.format ?? textOf(configuration.fields['format']) ?? 'pack-quantized';
  // Its scales have other names, so that one would seem to be missing.
  if (format.startsWith('marlin'))
    throw unsupported(name, `the format ${JSON.stringify(format)} is not read`);
  const weights = group?.weights;
  const scale = tensors.need(`${name}_scale`, name);
  const shape = declaredShape(name, codes, tensors);
  const [rows, columns] = shape;
  const packing = findPacking(name, codes, columns, weights?.['num_bits']);
  const of = { matrices: 1, rows, columns };
  const logical = { ...codes, name, shape };
  let grid: Grid | null;
  if (weights?.['strategy'] === 'group') {
    grid = groupGrid(of, countOf(weights['group_size']) ?? Number.NaN);
    if (grid === null || !hasGrid(scale.shape, grid))
      throw wrongGroups(logical, scale, weights['group_size']);
  } else {
    grid = findGrid(logical, of, scale, { block: null, common: [] });
  }
  const columnGroups = columnGroupsOf(name, of, grid, tensors);
  if (!['F32', 'BF16', 'F16'].includes(scale.dtype)) {
    throw invalid(
      name,
      `expected ${JSON.stringify(scale.name)} to hold floats, found ${scale.dtype}`,
    );
  }
  requireConfigured(name, tensors, configuration);
  const stored = tensors.find(`${name}_zero_point`);
  const zero: Zero =
    stored === undefined
      ? { kind: 'constant', value: 2 ** (packing.bits - 1) }
      : packedZero(name, stored, grid, packing);
  return {
    name,
    shape,
    scheme: 'pack-quantized',
    bits: packing.bits,
    block: blockOf(grid, of),
    storedAs: namesOf({
      weight: codes,
      scale,
      zeroPoint: stored,
      columnGroups: columnGroups ?? undefined,
    }),
    layout: rowLayout({
      codes,
      packing,
      grid,
      scale: { tensor: scale, dtype: scale.dtype },
      zero,
      columnGroups,
    }),
  };
}

/** The two integers of `weight_shape`, whose rows are those of the codes. */
function declaredShape(
  name: string,
  codes: StoredTensor,
  tensors: CheckpointTensors,
): [number, number] {
  const stored = tensors.need(`${name}_shape`, name);
  const bytes = tensors.bytesOf(stored, name);
  const isShape =
    (stored.dtype === 'I64' || stored.dtype === 'I32') &&
    stored.shape.length === 1 &&
    stored.shape[0] === 2;
  if (!isShape) throw invalid(name, `expected ${JSON.stringify(stored.name)} to be two integers`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const at = (i: number): number =>
    stored.dtype === 'I64' ? Number(view.getBigInt64(8 * i, true)) : view.getInt32(4 * i, true);
  const [rows, columns] = [at(0), at(1)];
  // A row of codes has at most one value a bit.
  const fits = codes.shape.length === 2 && rows === codes.shape[0] && columns >= 0;
  if (fits && columns <= (codes.shape[1] as number) * 32) return [rows, columns];
  throw invalid(
    name,
    `${JSON.stringify(stored.name)} says ${formatShape([rows, columns])}, which does not fit ` +
      `${JSON.stringify(codes.name)} of shape ${formatShape(codes.shape)}`,
  );
}

/**
 * How many bits a code has, and whether words have unused bits. compressed-tensors packs 3, 5, 6 and 7 bits densely
 * since May 2026; before, it left the upper bits of each word unused, with the same name of the format.
 */
function findPacking(name: string, codes: StoredTensor, columns: number, given: unknown): Bits {
  const words = codes.shape[1] as number;
  const bits = countOf(given);
  const candidates = (bits === undefined ? [1, 2, 3, 4, 5, 6, 7, 8] : [bits]).filter(
    (one) => one <= 8,
  );
  const found = candidates.flatMap((one): Bits[] => {
    const perWord = Math.floor(32 / one);
    const isDense = words === Math.ceil((columns * one) / 32);
    const isPadded = words === Math.ceil(columns / perWord);
    const isSame = 32 % one === 0 || columns <= perWord;
    return [
      ...(isDense ? [{ kind: 'bits', bits: one, perWord: null } as const] : []),
      ...(isPadded && !isSame ? [{ kind: 'bits', bits: one, perWord } as const] : []),
    ];
  });
  const [packing, other] = found;
  if (packing !== undefined && other === undefined) return packing;
  const problem = packing === undefined ? 'no packing fits' : 'more than one packing fits';
  const width = bits === undefined ? 'unknown width' : `${bits} bits`;
  throw invalid(
    name,
    `${problem} ${JSON.stringify(codes.name)} of shape ${formatShape(codes.shape)} for ${columns} columns of ${width}`,
  );
}

function packedZero(name: string, tensor: StoredTensor, grid: Grid, packing: Bits): Zero {
  const { bits, perWord } = packing;
  const words =
    perWord === null ? Math.ceil((grid.rows * bits) / 32) : Math.ceil(grid.rows / perWord);
  const needed = [words, grid.columns];
  if (
    tensor.dtype === 'I32' &&
    formatShape(tensor.shape) === formatShape(needed) &&
    grid.blockRows === 1
  ) {
    return { kind: 'packed', tensor };
  }
  throw invalid(
    name,
    `expected ${JSON.stringify(tensor.name)} to be I32 of shape ${formatShape(needed)}, found ${tensor.dtype} of ` +
      `shape ${formatShape(tensor.shape)}`,
  );
}

/** Bits and columns per scale of the modes of MLX without biases. */
const MLX_FLOATS = {
  mxfp4: { bits: 4, groupLength: 32, dtype: 'F8_E8M0' },
  nvfp4: { bits: 4, groupLength: 16, dtype: 'F8_E4M3' },
  mxfp8: { bits: 8, groupLength: 32, dtype: 'F8_E8M0' },
} as const;

/** Plans a weight of U32 with `scales` next to it, as MLX packs it. */
export function planMlx(
  weight: StoredTensor,
  scale: StoredTensor,
  tensors: CheckpointTensors,
  configuration: Configuration,
): LogicalPlan {
  const { name } = weight;
  const module = moduleOf(name);
  const biases = tensors.find(`${module}${module === '' ? '' : '.'}biases`);
  const own = Object.hasOwn(configuration.fields, module)
    ? configuration.fields[module]
    : undefined;
  const isOwn = typeof own === 'object' && own !== null;
  const fields = isOwn ? fieldsOf(own) : configuration.fields;
  const mode = textOf(fields['mode'])?.toLowerCase() ?? 'affine';
  if (mode === 'affine')
    return planAffine(
      weight,
      scale,
      tensors.need(`${module}.biases`.replace(/^\./, ''), name),
      fields,
    );
  if (!Object.hasOwn(MLX_FLOATS, mode)) {
    throw unsupported(name, `MLX's mode ${JSON.stringify(mode)} is not known`);
  }
  if (biases !== undefined)
    throw invalid(name, `MLX's mode ${mode} has no biases, found ${JSON.stringify(biases.name)}`);
  const global =
    tensors.find(`${module}.global_scale`) ?? tensors.find(`${module}.weight_global_scale`);
  if (global !== undefined)
    throw unsupported(name, `MLX's ${JSON.stringify(global.name)} is not applied`);
  const { bits, groupLength, dtype } = MLX_FLOATS[mode as keyof typeof MLX_FLOATS];
  const packed = matricesOf(weight);
  const of = { ...packed, columns: (packed.columns * 32) / bits };
  const grid = gridOf(of, [1, groupLength]);
  if (scale.dtype !== 'U8' || of.columns % groupLength !== 0 || !hasGrid(scale.shape, grid)) {
    throw wrongMlx(weight, scale, groupLength, bits);
  }
  return {
    name,
    shape: [...weight.shape.slice(0, -1), of.columns],
    scheme: `mlx-${mode}`,
    bits,
    block: [1, groupLength],
    storedAs: namesOf({ weight, scale }),
    layout: rowLayout({
      codes: weight,
      packing: bits === 4 ? { kind: 'e2m1', first: 'low' } : { kind: 'elements', dtype: 'F8_E4M3' },
      grid,
      scale: { tensor: scale, dtype },
    }),
  };
}

function planAffine(
  weight: StoredTensor,
  scale: StoredTensor,
  bias: StoredTensor,
  fields: Configuration['fields'],
): LogicalPlan {
  const { name } = weight;
  const bits = countOf(fields['bits']);
  const groupLength = countOf(fields['group_size']);
  if (bits === undefined || groupLength === undefined) {
    // 256 bits a scale are 64 codes of 4 bits, 32 of 8, or 128 of 2.
    throw invalid(
      name,
      'the configuration of MLX must have bits and group_size: the shapes do not tell them',
    );
  }
  if (![2, 3, 4, 5, 6, 8].includes(bits))
    throw unsupported(name, `MLX's codes of ${bits} bits are not known`);
  const packed = matricesOf(weight);
  const of = { ...packed, columns: (packed.columns * 32) / bits };
  const isWhole = Number.isInteger(of.columns) && of.columns % groupLength === 0;
  const grid = gridOf(of, [1, groupLength]);
  const isFloat = ['F16', 'BF16', 'F32'].includes(scale.dtype) && bias.dtype === scale.dtype;
  if (!isWhole || !isFloat || !hasGrid(scale.shape, grid) || !hasGrid(bias.shape, grid)) {
    throw wrongMlx(weight, scale, groupLength, bits);
  }
  return {
    name,
    shape: [...weight.shape.slice(0, -1), of.columns],
    scheme: 'mlx-affine',
    bits,
    block: [1, groupLength],
    storedAs: namesOf({ weight, scale, bias }),
    layout: rowLayout({
      codes: weight,
      packing: { kind: 'bits', bits, perWord: null },
      grid,
      scale: { tensor: scale, dtype: scale.dtype },
      bias,
    }),
  };
}

function wrongMlx(
  weight: StoredTensor,
  scale: StoredTensor,
  groupLength: number,
  bits: number,
): Error {
  const columns = ((weight.shape.at(-1) ?? 0) * 32) / bits;
  const needed = [...weight.shape.slice(0, -1), columns / groupLength];
  return invalid(
    weight.name,
    `${JSON.stringify(scale.name)} is ${scale.dtype} of shape ${formatShape(scale.shape)}; ${bits} bits in groups of ` +
      `${groupLength} columns need ${formatShape(needed)}, and biases alike`,
  );
}
