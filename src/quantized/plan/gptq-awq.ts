/**
 * GPTQ and AWQ: `qweight`, whose columns are the rows of the weight. Shapes distinguish them: GPTQ packs codes down
 * the columns, AWQ eight columns into a word.
 */

import type { CheckpointTensors } from './checkpoint-tensors.js';
import { type Configuration, countOf, textOf } from './configuration.js';
import {
  type ColumnLayout,
  type LogicalPlan,
  namesOf,
  type StoredTensor,
  type ZeroOffset,
} from './logical-plan.js';
import { memberOf } from './scaled.js';
import { formatShape, invalid, shownValue, unsupported } from './unsupported.js';

/** Columns in a word of AWQ. */
const AWQ_PER_WORD = 8;

/**
 * Values of `checkpoint_format`, which GPTQModel calls `format`; the last one is AWQ, which GPTQModel writes as well.
 */
const FORMATS: readonly string[] = ['gptq', 'gptq_v2', 'gemm'];

/** The tensors of a module. */
interface Parts {
  readonly name: string;
  readonly codes: StoredTensor;
  readonly zeros: StoredTensor;
  readonly scales: StoredTensor;
  readonly columnGroups: StoredTensor | null;
  /** Rows and columns of each. */
  readonly words: readonly [number, number];
  readonly zeroWords: readonly [number, number];
  readonly grid: readonly [groups: number, outputs: number];
}

/** Plans `qweight`; `module` is the name before it. */
export function planColumns(
  module: string,
  codes: StoredTensor,
  tensors: CheckpointTensors,
  configuration: Configuration,
): LogicalPlan {
  const { method, fields } = configuration;
  const format = textOf(fields['checkpoint_format'] ?? fields['format'])?.toLowerCase();
  const version = textOf(fields['version'])?.toLowerCase() ?? 'gemm';
  // Before shapes: some versions have those of GPTQ.
  if (version !== 'gemm' && mayBeMethods(method, format).awq) {
    const name = memberOf(module, 'weight');
    throw unsupported(name, `AWQ of version ${JSON.stringify(version)} is not read`);
  }
  const isMarlin = fields['is_marlin_format'] === true;
  if (isMarlin || (format !== undefined && !FORMATS.includes(format))) {
    const kind = `${method === 'awq' ? 'AWQ' : 'GPTQ'} of the format`;
    const found = JSON.stringify(isMarlin ? 'marlin' : format);
    throw unsupported(memberOf(module, 'weight'), `${kind} ${found} is not read`);
  }
  const rotation = fields['rotation'] ?? null;
  if (rotation !== null) {
    const found = `the rotation ${shownValue(rotation)} of the configuration`;
    throw unsupported(memberOf(module, 'weight'), `${found} is not applied`);
  }
  const parts = partsOf(module, codes, tensors);
  if (fields['desc_act'] === true && mayBeMethods(method, format).gptq) {
    tensors.need(memberOf(module, 'g_idx'), parts.name);
  }
  const { words, grid } = parts;
  const isGptq = words[1] === grid[1];
  const isAwq = words[1] * AWQ_PER_WORD === grid[1];
  if (!isGptq && !isAwq) {
    // Tiles of 16 × 16 codes of 4 or 8 bits.
    const isTiled = words[1] === grid[1] * 2 || words[1] === grid[1] * 4;
    if (isTiled) throw unsupported(parts.name, 'Marlin is not dequantized here');
    throw wrongShapes(parts, 'neither GPTQ nor AWQ');
  }
  const mayBe = mayBeMethods(method, format);
  if (isGptq && !mayBe.gptq)
    throw wrongShapes(parts, 'not AWQ, as the configuration declares, but looks like GPTQ');
  if (isAwq && !mayBe.awq)
    throw wrongShapes(parts, 'not GPTQ, as the configuration declares, but looks like AWQ');
  return isGptq ? planGptq(parts, configuration, format) : planAwq(parts, configuration);
}

/** GPTQModel writes AWQ as well, with the format `gemm`. */
function mayBeMethods(
  method: string | null,
  format: string | undefined,
): { gptq: boolean; awq: boolean } {
  if (method === 'awq') return { gptq: false, awq: true };
  if (method === 'gptq') return { gptq: format !== 'gemm', awq: format === 'gemm' };
  return { gptq: true, awq: true };
}

function partsOf(module: string, codes: StoredTensor, tensors: CheckpointTensors): Parts {
  const name = memberOf(module, 'weight');
  const zeros = tensors.need(memberOf(module, 'qzeros'), name);
  const scales = tensors.need(memberOf(module, 'scales'), name);
  for (const { name: stored, dtype } of [codes, zeros]) {
    if (dtype !== 'I32')
      throw unsupported(name, `expected ${JSON.stringify(stored)} to be I32, found ${dtype}`);
  }
  if (!['F16', 'BF16', 'F32'].includes(scales.dtype)) {
    throw invalid(
      name,
      `expected ${JSON.stringify(scales.name)} to hold floats, found ${scales.dtype}`,
    );
  }
  const columnGroups = tensors.find(memberOf(module, 'g_idx')) ?? null;
  return {
    name,
    codes,
    zeros,
    scales,
    columnGroups,
    words: twoDimensions(name, codes),
    zeroWords: twoDimensions(name, zeros),
    grid: twoDimensions(name, scales),
  };
}

function twoDimensions(
  name: string,
  { name: stored, shape }: StoredTensor,
): readonly [number, number] {
  const [rows, columns, ...more] = shape;
  if (rows !== undefined && columns !== undefined && more.length === 0) return [rows, columns];
  throw invalid(
    name,
    `expected two dimensions of ${JSON.stringify(stored)}, found ${formatShape(shape)}`,
  );
}

function wrongShapes({ name, words, zeroWords, grid }: Parts, what: string): Error {
  return invalid(
    name,
    `qweight ${formatShape(words)} with qzeros ${formatShape(zeroWords)} and scales ${formatShape(grid)} is ${what}`,
  );
}

function planGptq(
  parts: Parts,
  { fields, method }: Configuration,
  format: string | undefined,
): LogicalPlan {
  const { name, words, zeroWords, grid, columnGroups } = parts;
  const packing = textOf(fields['pack_dtype'])?.toLowerCase() ?? 'int32';
  if (packing !== 'int32') throw unsupported(name, `GPTQ packed in ${packing} is not read`);
  if (format === 'gemm') throw unsupported(name, 'GPTQ of the format "gemm" is not read');
  const declared = countOf(fields['bits']);
  const columns = columnGroups === null ? undefined : columnsOf(name, columnGroups);
  const bits = columns === undefined ? declared : (32 * words[0]) / columns;
  // `dynamic` gives modules other bits: the tensors tell them.
  const mayDiffer = declared === undefined || fields['dynamic'] !== undefined;
  if (bits === undefined || (bits !== declared && !mayDiffer)) {
    throw wrongShapes(parts, `not of ${declared ?? 'unknown'} bits`);
  }
  if (![2, 3, 4, 8].includes(bits)) {
    if (Number.isInteger(bits)) throw unsupported(name, `GPTQ codes of ${bits} bits are not read`);
    throw wrongShapes(parts, `not a whole number of bits for g_idx of ${columns}`);
  }
  const length = columns ?? (32 * words[0]) / bits;
  const [groups, outputs] = grid;
  if (
    zeroWords[0] !== groups ||
    zeroWords[1] * 32 !== outputs * bits ||
    !Number.isInteger(length)
  ) {
    throw wrongShapes(
      parts,
      `not GPTQ of ${bits} bits, whose qzeros are ${formatShape([groups, (outputs * bits) / 32])}`,
    );
  }
  const groupLength = groupLengthOf(parts, fields['group_size'], length);
  return planOf(parts, {
    scheme: 'gptq',
    bits,
    columns: length,
    block: [1, groupLength],
    groupLength,
    offset: offsetOf(method, format, fields['sym'] === true),
  });
}

function offsetOf(
  method: string | null,
  format: string | undefined,
  isSymmetric: boolean,
): ZeroOffset {
  if (method !== 'gptq') return { kind: 'by-data' };
  return format === 'gptq_v2' ? { kind: 'as-is' } : { kind: 'one-less', isSymmetric };
}

function columnsOf(name: string, { name: stored, dtype, shape }: StoredTensor): number {
  const [length, ...more] = shape;
  if (dtype === 'I32' && length !== undefined && more.length === 0) return length;
  throw invalid(
    name,
    `expected ${JSON.stringify(stored)} to be a list of I32, found ${dtype} ${formatShape(shape)}`,
  );
}

/**
 * The columns that share a scale: -1 stands for all. Without a configuration the shapes tell only a single group. A
 * list of groups rules, but a length that cannot be is refused in any case.
 */
function groupLengthOf(parts: Parts, given: unknown, columns: number): number {
  const [groups] = parts.grid;
  const isGiven = given !== undefined && given !== null;
  const only = !isGiven && groups === 1 ? columns : undefined;
  const length = given === -1 ? columns : (countOf(given) ?? only);
  if (parts.columnGroups !== null && (!isGiven || length !== undefined)) return length ?? columns;
  if (length !== undefined && Math.ceil(columns / Math.max(length, 1)) === groups) return length;
  const found = JSON.stringify(given ?? null).slice(0, 100);
  throw wrongShapes(parts, `not ${columns} columns in groups of ${found} (group_size)`);
}

function planAwq(parts: Parts, { fields }: Configuration): LogicalPlan {
  const { name, words, zeroWords, grid, columnGroups } = parts;
  const bits = countOf(fields['bits'] ?? fields['w_bit']) ?? 4;
  if (bits !== 4) throw unsupported(name, `AWQ codes of ${bits} bits are not read`);
  if (columnGroups !== null) throw wrongShapes(parts, 'not AWQ, which has no g_idx');
  if (zeroWords[0] !== grid[0] || zeroWords[1] !== words[1]) {
    throw wrongShapes(parts, `not AWQ, whose qzeros are ${formatShape([grid[0], words[1]])}`);
  }
  const [columns] = words;
  const groupLength = groupLengthOf(parts, fields['group_size'] ?? fields['q_group_size'], columns);
  if (columns % Math.max(groupLength, 1) !== 0)
    throw wrongShapes(parts, `not in whole groups of ${groupLength} columns`);
  const block = [1, groupLength];
  return planOf(parts, { scheme: 'awq', bits: 4, columns, block, groupLength, offset: null });
}

interface Found extends Pick<ColumnLayout, 'bits' | 'groupLength' | 'offset'> {
  readonly scheme: string;
  readonly columns: number;
  readonly block: readonly number[];
}

function planOf(
  parts: Parts,
  { scheme, bits, columns, block, groupLength, offset }: Found,
): LogicalPlan {
  const { name, codes, zeros, scales, columnGroups, grid } = parts;
  return {
    name,
    shape: [grid[1], columns],
    scheme,
    bits,
    block,
    storedAs: namesOf({ weight: codes, scale: scales, zeroPoint: zeros, columnGroups }),
    layout: { kind: 'columns', codes, zeros, scales, columnGroups, groupLength, bits, offset },
  };
}
