/** Rows of the inputs of a merged tensor, as float64. */

import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { Tensor } from '../../tensor/tensor.js';
import { call, immediate, runAsync, type Work } from '../../work/work.js';
import { fetchRows, type OwnMergeSource } from '../base.js';
import { readValues } from '../values.js';

/** Rows of a tensor, ready to be read. */
export interface OpenRows {
  /** The local tensor, whose file stays open as long as it is referenced; undefined for a remote one. */
  readonly tensor: Tensor | undefined;
  /** Whether these are the rows of the tensor, as they are. */
  readonly areWhole: boolean;
  /** Reads the rows from `first` on, as many as fit. */
  read(first: number, values: Float64Array): Work<void>;
}

/** An input of a merged tensor. */
export interface RowSource {
  /** The tensor of a local model; undefined for a remote one. */
  tensor(): Tensor | undefined;
  /** Takes the tensor of a local model. */
  open(): OpenRows;
}

/** Reads the same rows of all inputs: one after the other, or from remote ones all at once. */
export function* readTogether(
  inputs: readonly OpenRows[],
  first: number,
  rows: readonly Float64Array[],
): Work<void> {
  const works = (): Work<void>[] =>
    inputs.map((input, i) => input.read(first, rows[i] as Float64Array));
  if (inputs.every(({ tensor }) => tensor !== undefined)) {
    for (const work of works()) yield* work;
    return;
  }
  yield* call({
    async: (signal) => Promise.all(works().map((work) => runAsync(work, signal))),
  });
}

/** A tensor as a matrix. */
export interface Matrix {
  readonly rows: number;
  readonly columns: number;
}

/**
 * A tensor as a matrix whose rows are merged: those of its first dimension; with three dimensions, as of experts, of
 * the first two.
 */
export function mergedMatrix(shape: readonly number[]): Matrix {
  const rows = shape.length === 3 ? (shape[0] as number) * (shape[1] as number) : (shape[0] ?? 1);
  const columns = shape
    .slice(shape.length === 3 ? 2 : 1)
    .reduce((product, size) => product * size, 1);
  return { rows, columns };
}

/** Rows of a stored tensor. */
export class StoredRows implements RowSource {
  readonly #handle: OwnMergeSource;
  readonly #entry: TensorEntry;
  readonly #columns: number;
  readonly #filler: StoredRows | null;

  /**
   * @param columns how many columns of the tensor are read
   * @param filler has the columns that the tensor lacks
   */
  constructor(
    handle: OwnMergeSource,
    entry: TensorEntry,
    columns: number,
    filler: StoredRows | null = null,
  ) {
    this.#handle = handle;
    this.#entry = entry;
    this.#columns = columns;
    this.#filler = filler;
  }

  tensor(): Tensor | undefined {
    const handle = this.#handle;
    return handle.local ? (handle.getTensor(this.#entry.name) as Tensor) : undefined;
  }

  open(): OpenRows {
    const [handle, entry, columns] = [this.#handle, this.#entry, this.#columns];
    const own = mergedMatrix(entry.shape);
    const tensor = this.tensor();
    const readAll = (first: number, values: Float64Array): Work<void> =>
      tensor === undefined
        ? call({
            async: (signal) => fetchRows(handle, entry, { rows: own.rows, first }, values, signal),
          })
        : immediate(() => readValues(tensor, first * own.columns, values));
    if (own.columns === columns) {
      return { tensor, areWhole: tensor !== undefined, read: readAll };
    }
    const filler = this.#filler?.open();
    return {
      tensor,
      areWhole: false,
      *read(first, values) {
        if (filler !== undefined) yield* filler.read(first, values);
        const count = values.length / columns;
        const rows = new Float64Array(count * own.columns);
        yield* readAll(first, rows);
        const width = Math.min(columns, own.columns);
        for (let row = 0; row < count; row++) {
          const from = row * own.columns;
          values.set(rows.subarray(from, from + width), row * columns);
        }
      },
    };
  }
}
