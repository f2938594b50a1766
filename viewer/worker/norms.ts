/** Norms of the rows and the columns of a tensor, while its values go by. */

/** Most rows, and columns, whose norms are kept: a plot shows no more. */
const MAX_NORMS = 2 ** 20;

/** Adds the squares of values by row and by column. */
export class RowNorms {
  readonly #rows: Float64Array;
  readonly #columns: Float64Array;
  #row = 0;
  #column = 0;

  private constructor(rows: number, columns: number) {
    this.#rows = new Float64Array(rows);
    this.#columns = new Float64Array(columns);
  }

  /** Null for tensors without rows, and for those with too many. */
  static of(shape: readonly number[], dtype: string): RowNorms | null {
    const columns = shape.at(-1) ?? 0;
    const rows = shape.slice(0, -1).reduce((product, size) => product * size, 1);
    const isShown =
      shape.length > 1 && rows > 0 && columns > 0 && rows <= MAX_NORMS && columns <= MAX_NORMS;
    return isShown && dtype !== 'C64' ? new RowNorms(rows, columns) : null;
  }

  /** Hands on windows, which are a tensor's in order, and adds them. */
  async *watched(windows: AsyncIterable<ArrayLike<number>>): AsyncGenerator<ArrayLike<number>> {
    for await (const values of windows) {
      this.#add(values);
      yield values;
    }
  }

  #add(values: ArrayLike<number>): void {
    const [rows, columns] = [this.#rows, this.#columns];
    let [row, column, sum] = [this.#row, this.#column, 0];
    for (let i = 0; i < values.length; i++) {
      const square = (values[i] as number) ** 2;
      sum += square;
      columns[column] = (columns[column] as number) + square;
      if (++column < columns.length) continue;
      rows[row] = (rows[row] as number) + sum;
      [column, sum] = [0, 0];
      row++;
    }
    if (column > 0) rows[row] = (rows[row] as number) + sum;
    [this.#row, this.#column] = [row, column];
  }

  /** ‖row‖ and ‖column‖. */
  result(): { rows: Float64Array; columns: Float64Array } {
    return { rows: this.#rows.map(Math.sqrt), columns: this.#columns.map(Math.sqrt) };
  }
}
