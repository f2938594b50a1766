/** Weights that look like those of two tools, which only a configuration or a marker tells apart. */

import type { Advice } from '../../errors/advice.js';
import type { Dtype } from '../../header/dtype.js';
import { type CheckpointTensors, MARKER_NAME } from './checkpoint-tensors.js';
import { gridOf, tiledShape } from './groups.js';
import type { LogicalPlan, StoredTensor } from './logical-plan.js';
import { memberOf, moduleOf } from './scaled.js';

/** What is taken of weights that have neither: codes and scales in row order that are not rotated. */
export type Assumption = 'plain';

/** What to do about such a weight. */
export const ASSUME: Advice = {
  option: 'assume',
  value: 'plain',
  text: "pass assume: 'plain' to dequantize() for codes in row order that are not rotated",
};

/**
 * Returns what is not known of a weight that looks like one of ComfyUI without its marker: older int8 may be rotated,
 * and scales of other formats, where tiles fill their grid, may have another order. Null for all other weights.
 */
export function undeclaredKind(
  { name, scheme, layout }: LogicalPlan,
  scale: StoredTensor,
): string | null {
  if (layout.kind !== 'rows') return null;
  const { codes, grid, zero, columnGroups } = layout;
  const marker = JSON.stringify(memberOf(moduleOf(name), MARKER_NAME));
  // Under any names: no tool is known that stores such weights without a configuration or a marker.
  if (scheme === 'int8' && scale.dtype === 'F32' && zero === null && columnGroups === null) {
    return `int8 without a marker: may be rotated, ${marker} is missing; ${ASSUME.text}`;
  }
  if (scale.name !== `${name}_scale` || !/(?:^|\.)weight$/.test(name)) return null;
  const [rows, columns] = tiledShape(grid);
  const isTiled = grid.rows === rows && grid.columns === columns;
  if (!isTiled || codes.name !== name || (scheme !== 'nvfp4' && scheme !== 'mxfp8')) return null;
  return `${scheme} without a marker: may be in tiles, ${marker} is missing; ${ASSUME.text}`;
}

/** Members of modules that only formats of ComfyUI have together. */
const OWN_MEMBERS: readonly (readonly string[])[] = [
  ['weight_scale', 'weight_zeros'],
  ['weight_s_rel', 'weight_s_channel'],
];

/** Dtypes of weights with scales in tiles: the values of a byte, and the columns that share a scale. */
const TILED: Partial<Record<Dtype, readonly [perByte: number, length: number]>> = {
  U8: [2, 16],
  F8_E4M3: [1, 32],
};

/** Whether a weight without a marker and a configuration can only be one that ComfyUI marks. */
export function lacksMarker(
  { name, dtype, shape }: StoredTensor,
  tensors: CheckpointTensors,
): boolean {
  if (dtype === 'I8') {
    const module = moduleOf(name);
    const has = (member: string): boolean => tensors.member(module, member) !== undefined;
    return OWN_MEMBERS.some((members) => members.every(has));
  }
  const [perByte, length] = TILED[dtype] ?? [];
  if (perByte === undefined || length === undefined) return false;
  const scale = tensors.suffixed(name, '_scale');
  const [columns, rows, ...others] = shape.toReversed();
  if (scale === undefined || rows === undefined) return false;
  if (columns === undefined || !['U8', 'F8_E4M3', 'F8_E8M0'].includes(scale.dtype)) return false;
  const grid = gridOf({ matrices: 1, rows, columns: columns * perByte }, [1, length]);
  const [found, tiles] = [scale.shape.slice(-2), tiledShape(grid)];
  const isTiled = found.length === 2 && found.every((size, i) => size === tiles[i]);
  const isPlain = found[0] === grid.rows && found[1] === grid.columns;
  return isTiled && !isPlain && scale.shape.length === others.length + 2;
}
