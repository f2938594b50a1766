/**
 * Turns rows back that were multiplied by a regular Hadamard matrix, a Kronecker power of
 * [[1, 1, 1, -1], [1, 1, -1, 1], [1, -1, 1, 1], [-1, 1, 1, 1]], which is its own inverse up to a power of two. Sums of
 * integers are exact, so that only the product with the scale of the row rounds.
 */

/** Rows of codes, of 8 bits, and columns of a group. */
interface RotatedRows {
  readonly columns: number;
  /** A power of 4 that divides the columns. */
  readonly length: number;
}

/**
 * Longest group whose sums of quarters fit into 16 bits: of the signs in a row of 256, 136 are positive, so that codes
 * from -128 to 127 add up to -32648 at least.
 */
const MAX_PAIRED_LENGTH = 1024;

/** Turns whole rows back. `scales` has a number for each row. */
export function turnBack(
  codes: Int8Array,
  { columns, length }: RotatedRows,
  scales: Float32Array,
  into: Float32Array,
): void {
  const isPaired = length > 4 && length <= MAX_PAIRED_LENGTH;
  const sums = new Int32Array(isPaired ? length / 2 : length);
  const factor = 1 / Math.sqrt(length);
  for (let begin = 0, row = 0; begin < codes.length; begin += columns, row++) {
    const scale = (scales[row] as number) * factor;
    for (let at = begin; at < begin + columns; at += length) {
      if (isPaired) turnPairs(codes, at, length, scale, sums, into);
      else turnGroup(codes, at, length, scale, sums, into);
    }
  }
}

/** Turns the group at `at` back. */
function turnGroup(
  codes: Int8Array,
  at: number,
  length: number,
  scale: number,
  sums: Int32Array,
  into: Float32Array,
): void {
  const quarter = length / 4;
  for (let i = 0; i < length; i++) sums[i] = codes[at + i] as number;
  for (let stride = 1; stride < quarter; stride *= 4) addFours(sums, stride);
  for (let i = 0, to = at; i < quarter; i++, to++) {
    const a = sums[i] as number;
    const b = sums[i + quarter] as number;
    const c = sums[i + 2 * quarter] as number;
    const d = sums[i + 3 * quarter] as number;
    into[to] = (a + b + c - d) * scale;
    into[to + quarter] = (a + b - c + d) * scale;
    into[to + 2 * quarter] = (a - b + c + d) * scale;
    into[to + 3 * quarter] = (b - a + c + d) * scale;
  }
}

/**
 * As above, in half the time: the codes of both halves are added together, those of the second half in the upper 16
 * bits. Only the last step separates them.
 */
function turnPairs(
  codes: Int8Array,
  at: number,
  length: number,
  scale: number,
  sums: Int32Array,
  into: Float32Array,
): void {
  const half = length / 2;
  const quarter = length / 4;
  for (let i = 0, from = at; i < half; i += 4, from += 4) {
    const a = ((codes[from] as number) + ((codes[from + half] as number) << 16)) | 0;
    const b = ((codes[from + 1] as number) + ((codes[from + half + 1] as number) << 16)) | 0;
    const c = ((codes[from + 2] as number) + ((codes[from + half + 2] as number) << 16)) | 0;
    const d = ((codes[from + 3] as number) + ((codes[from + half + 3] as number) << 16)) | 0;
    sums[i] = (a + b + c - d) | 0;
    sums[i + 1] = (a + b - c + d) | 0;
    sums[i + 2] = (a - b + c + d) | 0;
    sums[i + 3] = (b - a + c + d) | 0;
  }
  for (let stride = 4; stride < quarter; stride *= 4) addFours(sums, stride);
  for (let i = 0, to = at; i < quarter; i++, to++) {
    const first = sums[i] as number;
    const second = sums[i + quarter] as number;
    const a = (first << 16) >> 16;
    const b = (second << 16) >> 16;
    const c = (first - a) >> 16;
    const d = (second - b) >> 16;
    into[to] = (a + b + c - d) * scale;
    into[to + quarter] = (a + b - c + d) * scale;
    into[to + half] = (a - b + c + d) * scale;
    into[to + half + quarter] = (b - a + c + d) * scale;
  }
}

/** Multiplies each four numbers that are `stride` apart by the matrix. */
function addFours(sums: Int32Array, stride: number): void {
  for (let begin = 0; begin < sums.length; begin += 4 * stride) {
    for (let i = begin; i < begin + stride; i++) {
      const a = sums[i] as number;
      const b = sums[i + stride] as number;
      const c = sums[i + 2 * stride] as number;
      const d = sums[i + 3 * stride] as number;
      sums[i] = (a + b + c - d) | 0;
      sums[i + stride] = (a + b - c + d) | 0;
      sums[i + 2 * stride] = (a - b + c + d) | 0;
      sums[i + 3 * stride] = (b - a + c + d) | 0;
    }
  }
}
