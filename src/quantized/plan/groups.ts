/**
 * Finds the grid of a scale: which block of the weight each of its items is for. A block size comes from the
 * configuration. Without one it is taken from the shapes only where there is a single answer: ragged edges make
 * 576 rows with 5 scales blocks of 128, not of 115.2.
 */

import type { Grid, StoredTensor } from './logical-plan.js';
import { formatShape, invalid } from './unsupported.js';

/** A weight as matrices of the same size. */
export interface Matrices {
  readonly matrices: number;
  readonly rows: number;
  readonly columns: number;
}

/** The smallest block that is inferred from shapes. */
const LEAST_INFERRED_BLOCK = 16;

/** Rows and columns of a block. */
export type Block = readonly [rows: number, columns: number];

/** Tiles of ComfyUI's block scales, to which their grid is padded. */
const TILE: Block = [128, 4];

/** The last two dimensions as rows and columns, all before as matrices. A vector is one row. */
export function matricesOf({ name, shape }: StoredTensor): Matrices {
  if (shape.length === 0 || shape.length > 3) {
    throw invalid(
      name,
      `expected a weight of one to three dimensions, found ${formatShape(shape)}`,
    );
  }
  const [columns = 1, rows = 1, matrices = 1] = shape.toReversed();
  return { matrices, rows, columns };
}

/** Returns the grid for blocks of this size. */
export function gridOf(of: Matrices, [blockRows, blockColumns]: Block): Grid {
  return {
    matrices: of.matrices,
    rows: Math.ceil(of.rows / blockRows),
    columns: Math.ceil(of.columns / blockColumns),
    blockRows,
    blockColumns,
  };
}

/** Returns rows and columns of a grid that is stored in whole tiles. */
export function tiledShape({ rows, columns }: Grid): Block {
  const padded = (size: number, multiple: number): number => Math.ceil(size / multiple) * multiple;
  return [padded(rows, TILE[0]), padded(columns, TILE[1])];
}

/**
 * Whether a scale has the grid's dimensions. Dimensions of 1 may be left out or added where it has others than the
 * weight: modelopt squeezes some. [1, N] of a matrix are never scales of N rows.
 */
export function hasGrid(shape: readonly number[], { matrices, rows, columns }: Grid): boolean {
  const full = [matrices, rows, columns];
  if (shape.length === 3) return isSame(shape, full);
  if (shape.length === 2 && matrices === 1) return isSame(shape, [rows, columns]);
  const isLong = (dimension: number): boolean => dimension !== 1;
  return isSame(shape.filter(isLong), full.filter(isLong));
}

function isSame(shape: readonly number[], other: readonly number[]): boolean {
  return shape.length === other.length && shape.every((dimension, i) => dimension === other[i]);
}

/** One scale for each row, each column, each matrix or the whole weight. */
function simpleGrids(of: Matrices): Grid[] {
  const [rows, columns] = [Math.max(of.rows, 1), Math.max(of.columns, 1)];
  return [
    gridOf(of, [1, columns]),
    gridOf(of, [rows, columns]),
    { ...gridOf(of, [rows, columns]), matrices: 1 },
  ];
}

/**
 * Finds the grid that a scale has. `block` is the size of the configuration; null when it gives none. `common` is
 * tried before a size is inferred.
 *
 * @throws QuantizationError when the scale fits no grid, or more than one
 */
export function findGrid(
  weight: StoredTensor,
  of: Matrices,
  scale: StoredTensor,
  { block, common }: { readonly block: Block | null; readonly common: readonly Block[] },
): Grid {
  const { shape } = scale;
  if (block !== null) {
    const grid = gridOf(of, block);
    if (hasGrid(shape, grid)) return grid;
  }
  const simple = simpleGrids(of).find((grid) => hasGrid(shape, grid));
  const byColumn = columnGrid(of, shape);
  if (byColumn !== null) {
    // [E, N] of E square matrices: a scale for each row or for each column.
    if (simple !== undefined && !sameGrid(simple, byColumn) && shape.length < 3) {
      throw ambiguous(weight, scale);
    }
    if (simple === undefined) return byColumn;
  }
  if (simple !== undefined) return simple;
  if (block === null) {
    const found = common.map((size) => gridOf(of, size)).find((grid) => hasGrid(shape, grid));
    const inferred = found ?? inferGrid(of, shape);
    if (inferred !== null) return inferred;
  }
  const needed = block === null ? 'one for each row or block' : blockText(of, block);
  throw invalid(
    weight.name,
    `${JSON.stringify(scale.name)} of shape ${formatShape(shape)} is no grid of scales for ` +
      `${formatShape(weight.shape)}; expected ${needed}`,
  );
}

function blockText(of: Matrices, block: Block): string {
  const { matrices, rows, columns } = gridOf(of, block);
  const grid = matrices === 1 ? [rows, columns] : [matrices, rows, columns];
  return `${formatShape(grid)} for blocks of ${block[0]} × ${block[1]}`;
}

function ambiguous(weight: StoredTensor, scale: StoredTensor): Error {
  return invalid(
    weight.name,
    `${JSON.stringify(scale.name)} of shape ${formatShape(scale.shape)} may be for rows or for columns of ` +
      formatShape(weight.shape),
  );
}

/** Scales for the columns of each of several matrices, as fbgemm has them for experts. */
function columnGrid(of: Matrices, shape: readonly number[]): Grid | null {
  if (of.matrices === 1 || of.columns === 1) return null;
  const grid = gridOf(of, [Math.max(of.rows, 1), 1]);
  const isFull = shape.length !== 3 || shape[1] === 1;
  return isFull && hasGrid(shape, grid) ? grid : null;
}

function sameGrid(a: Grid, b: Grid): boolean {
  return a.matrices === b.matrices && a.rows === b.rows && a.columns === b.columns;
}

/** A grid whose blocks come out as powers of two from 16 on, or as a whole axis; null for any other. */
function inferGrid(of: Matrices, shape: readonly number[]): Grid | null {
  const [columns = 1, rows = 1, matrices = 1, ...more] = shape.toReversed();
  if (more.length > 0 || matrices !== of.matrices) return null;
  const blockRows = inferBlock(of.rows, rows);
  const blockColumns = inferBlock(of.columns, columns);
  if (blockRows === null || blockColumns === null) return null;
  return { matrices, rows, columns, blockRows, blockColumns };
}

function inferBlock(length: number, count: number): number | null {
  if (count === 1) return Math.max(length, 1);
  const size = length / count;
  if (size === 1) return 1;
  const isPower = Number.isInteger(Math.log2(size));
  return isPower && size >= LEAST_INFERRED_BLOCK ? size : null;
}

/** The grid of groups along the columns, each with a scale per row; a group longer than a row is the whole row. */
export function groupGrid(of: Matrices, groupLength: number): Grid | null {
  const length = Math.min(groupLength, Math.max(of.columns, 1));
  return of.columns % length === 0 ? gridOf(of, [1, length]) : null;
}
