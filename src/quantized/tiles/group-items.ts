/** The items of a grid, such as scales, row by row, however a tensor stores them. */

import type { Dtype } from '../../header/dtype.js';
import { toFloat32 } from '../../tensor/float32/kernels.js';
import type { Tensor } from '../../tensor/tensor.js';
import { gatherTiles } from '../kernels/tiled-grid.js';
import { transpose } from '../kernels/transpose.js';
import type { Grid, GridOrder } from '../plan/logical-plan.js';
import { decodeItems, rejectNaN } from './scales.js';

/** The items of one tensor. */
export class GridItems {
  readonly #weight: string;
  readonly #tensor: Tensor;
  /** The dtype as which the elements are read. */
  readonly #dtype: Dtype;
  readonly #grid: Grid;
  readonly #order: GridOrder;
  /** All items, where their axes are exchanged. */
  readonly #exchanged: Float32Array | null;

  constructor(weight: string, tensor: Tensor, dtype: Dtype, grid: Grid, order: GridOrder) {
    this.#weight = weight;
    this.#tensor = tensor;
    this.#dtype = dtype;
    this.#grid = grid;
    this.#order = order;
    this.#exchanged = order === 'columns' ? exchanged(tensor, dtype, grid) : null;
  }

  /**
   * Decodes whole rows of the grid of one matrix, from `row` on.
   *
   * @throws QuantizationError for a NaN
   */
  fill(matrix: number, row: number, into: Float32Array): void {
    const { rows, columns } = this.#grid;
    const first = (matrix * rows + row) * columns;
    if (this.#exchanged !== null) into.set(this.#exchanged.subarray(first, first + into.length));
    else if (this.#order === 'tiles') this.#fillFromTiles(matrix, row, into);
    else decodeItems(this.#tensor, this.#dtype, first, into);
    rejectNaN(this.#weight, this.#tensor.name, into, first, columns);
  }

  #fillFromTiles(matrix: number, row: number, into: Float32Array): void {
    const { matrices, columns } = this.#grid;
    const { bytes } = this.#tensor;
    const byteLength = bytes.length / matrices;
    const tiles = bytes.subarray(matrix * byteLength, (matrix + 1) * byteLength);
    const items = new Uint8Array(into.length);
    gatherTiles(tiles, columns, row, items);
    toFloat32(this.#dtype, items, into);
  }
}

function exchanged(tensor: Tensor, dtype: Dtype, { rows, columns }: Grid): Float32Array {
  const stored = new Float32Array(rows * columns);
  decodeItems(tensor, dtype, 0, stored);
  const items = new Float32Array(stored.length);
  transpose(stored, { first: 0, last: rows, rows: columns, columns: rows }, columns, items);
  return items;
}
