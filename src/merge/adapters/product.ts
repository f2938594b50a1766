/** Adds products of two factors to rows: the inner loop of every low-rank adapter. */

/** Columns that are computed together: their sums and four rows of the right factor stay in the first-level cache. */
const BLOCK_LENGTH = 512;

/** Ranks that are added at once; factors are padded to a multiple. */
const RANK_STEP = 4;

/** Two factors whose product is a matrix. */
export class Factors {
  readonly rank: number;
  readonly columns: number;
  /** Rows of the padded rank, one for each row of the product. */
  readonly left: Float64Array;
  /** The padded rank × the product's columns; several such matrices one after the other. */
  readonly right: Float64Array;

  /** Creates factors of zeros. */
  constructor(rows: number, rank: number, columns: number, matrices = 1) {
    this.rank = Math.ceil(rank / RANK_STEP) * RANK_STEP;
    this.columns = columns;
    this.left = new Float64Array(rows * this.rank);
    this.right = new Float64Array(matrices * this.rank * columns);
  }

  /**
   * Adds rows of the product, from the row `first` on.
   *
   * @param sums whole rows
   * @param matrix the matrix of the right factor
   */
  addTo(sums: Float64Array, first: number, matrix = 0): void {
    const { left, right, rank, columns } = this;
    const count = sums.length / columns;
    for (let begin = 0; begin < columns; begin += BLOCK_LENGTH) {
      const end = Math.min(begin + BLOCK_LENGTH, columns);
      for (let row = 0; row < count; row += 2) {
        for (let k = 0; k < rank; k += RANK_STEP) {
          const from = (first + row) * rank + k;
          const at = (matrix * rank + k) * columns;
          const block = { sums, at: row * columns, begin, end };
          if (row + 1 < count) addToTwo(block, left, from, rank, right, at, columns);
          else addToOne(block, left, from, right, at, columns);
        }
      }
    }
  }
}

/** A part of a row of the result. */
interface Block {
  readonly sums: Float64Array;
  /** Position of the row. */
  readonly at: number;
  readonly begin: number;
  readonly end: number;
}

function addToTwo(
  { sums, at, begin, end }: Block,
  left: Float64Array,
  from: number,
  rank: number,
  right: Float64Array,
  first: number,
  columns: number,
): void {
  const [second, third, fourth] = [first + columns, first + 2 * columns, first + 3 * columns];
  const next = at + columns;
  const a = left[from] as number;
  const b = left[from + 1] as number;
  const c = left[from + 2] as number;
  const d = left[from + 3] as number;
  const e = left[from + rank] as number;
  const f = left[from + rank + 1] as number;
  const g = left[from + rank + 2] as number;
  const h = left[from + rank + 3] as number;
  for (let i = begin; i < end; i++) {
    const w = right[first + i] as number;
    const x = right[second + i] as number;
    const y = right[third + i] as number;
    const z = right[fourth + i] as number;
    sums[at + i] = (sums[at + i] as number) + (a * w + b * x + c * y + d * z);
    sums[next + i] = (sums[next + i] as number) + (e * w + f * x + g * y + h * z);
  }
}

function addToOne(
  { sums, at, begin, end }: Block,
  left: Float64Array,
  from: number,
  right: Float64Array,
  first: number,
  columns: number,
): void {
  const [second, third, fourth] = [first + columns, first + 2 * columns, first + 3 * columns];
  const a = left[from] as number;
  const b = left[from + 1] as number;
  const c = left[from + 2] as number;
  const d = left[from + 3] as number;
  for (let i = begin; i < end; i++) {
    sums[at + i] =
      (sums[at + i] as number) +
      (a * (right[first + i] as number) +
        b * (right[second + i] as number) +
        c * (right[third + i] as number) +
        d * (right[fourth + i] as number));
  }
}
