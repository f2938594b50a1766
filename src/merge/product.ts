/** Adds products of factors to rows of elements, by native kernels where there are some, else in TypeScript. */

import { DTYPES, type Dtype } from '../header/dtype.js';
import { type CastSource, isCastSource } from '../tensor/float32/cast.js';
import { cast, nativeKernels, type ProductRows, toFloat32 } from '../tensor/float32/kernels.js';

/** The factors of a product, for some rows. */
export type RowFactors = Pick<ProductRows, 'left' | 'right'>;

/** Rows of the right factor end at a multiple of this many values. */
const LANES = 8;

/** Columns that are computed together: their sums and four rows of the right factor stay in the first-level cache. */
const BLOCK_LENGTH = 512;

// Properties of rows are listed one by one, in the same order: engines take long to spread objects.
const NO_LEFT = new Float64Array(0);
const NO_RIGHT = new Float32Array(0);

/** Returns the length of a row of the right factor. */
export function paddedLength(columns: number): number {
  return Math.ceil(columns / LANES) * LANES;
}

/**
 * Adds a product to rows, accumulated in float64 and rounded once: the same bits on every machine. Returns how many
 * results are NaN, infinite or too large for the dtype; 0 for F64.
 */
export function addProduct(rows: ProductRows): number {
  if (rows.bytes.length === 0) return 0;
  return nativeKernels()?.addProduct(rows) ?? addProductInTypeScript(rows);
}

/** As `addProduct`, on a thread of the pool if there are kernels: no other code may reach the memory of the arrays. */
export async function addProductOnPool(rows: ProductRows): Promise<number> {
  if (rows.bytes.length === 0) return 0;
  return (await nativeKernels()?.addProductAsync(rows)) ?? addProductInTypeScript(rows);
}

/** Decodes elements to float64; of dtypes that are not merged by way of float32. */
export function decode(from: Dtype, bytes: Uint8Array, values: Float64Array): void {
  if (!isCastSource(from)) {
    values.set(decodeInTypeScript(from, bytes));
    return;
  }
  addProduct({
    from,
    to: 'F64',
    bytes,
    output: bytesOf(values),
    left: NO_LEFT,
    right: NO_RIGHT,
    columns: values.length,
  });
}

/** Encodes values as elements, rounded once. Returns a count as `addProduct`. */
export function encode(values: Float64Array, to: CastSource, output: Uint8Array): number {
  return addProduct({
    from: 'F64',
    to,
    bytes: bytesOf(values),
    output,
    left: NO_LEFT,
    right: NO_RIGHT,
    columns: values.length,
  });
}

/** As `addProduct`, without kernels. */
export function addProductInTypeScript({
  from,
  to,
  bytes,
  output,
  left,
  right,
  columns,
}: ProductRows): number {
  const sums = decodeInTypeScript(from, bytes);
  const rows = sums.length / columns;
  const rank = left.length / rows;
  for (let begin = 0; rank > 0 && begin < columns; begin += BLOCK_LENGTH) {
    const end = Math.min(begin + BLOCK_LENGTH, columns);
    const stride = right.length / rank;
    for (let row = 0; row < rows; row++) {
      const block = { sums, at: row * columns, begin, end };
      let k = 0;
      for (; k + 4 <= rank; k += 4) addFour(block, left, row * rank + k, right, k * stride, stride);
      for (; k < rank; k++) addOne(block, left[row * rank + k] as number, right, k * stride);
    }
  }
  return encodeInTypeScript(sums, to, output);
}

/** A part of a row of the result. */
interface Block {
  readonly sums: Float64Array;
  /** Position of the row. */
  readonly at: number;
  readonly begin: number;
  readonly end: number;
}

function addFour(
  { sums, at, begin, end }: Block,
  left: Float64Array,
  from: number,
  right: Float32Array,
  first: number,
  stride: number,
): void {
  const [second, third, fourth] = [first + stride, first + 2 * stride, first + 3 * stride];
  const a = left[from] as number;
  const b = left[from + 1] as number;
  const c = left[from + 2] as number;
  const d = left[from + 3] as number;
  for (let i = begin; i < end; i++) {
    const one = (sums[at + i] as number) + a * (right[first + i] as number);
    const two = one + b * (right[second + i] as number);
    const three = two + c * (right[third + i] as number);
    sums[at + i] = three + d * (right[fourth + i] as number);
  }
}

function addOne(
  { sums, at, begin, end }: Block,
  factor: number,
  right: Float32Array,
  first: number,
): void {
  for (let i = begin; i < end; i++) {
    sums[at + i] = (sums[at + i] as number) + factor * (right[first + i] as number);
  }
}

function decodeInTypeScript(from: Dtype, bytes: Uint8Array): Float64Array<ArrayBuffer> {
  if (from === 'F64') return new Float64Array(bytes.slice().buffer);
  const floats = new Float32Array(bytes.length / (DTYPES[from].bits / 8));
  toFloat32(from, bytes, floats);
  return new Float64Array(floats);
}

function encodeInTypeScript(sums: Float64Array, to: CastSource, output: Uint8Array): number {
  if (to === 'F64') {
    output.set(bytesOf(sums));
    return 0;
  }
  if (to === 'F32') {
    const floats = new Float32Array(sums);
    output.set(bytesOf(floats));
    return countNotFinite(floats);
  }
  const floats = roundedToOdd(sums);
  return countNotFinite(floats) + cast('F32', to, bytesOf(floats), output);
}

/**
 * Rounds to float32 such that rounding again, to a narrower dtype, gives the same as rounding once: what is not exact
 * gets an odd last bit.
 */
function roundedToOdd(values: Float64Array): Float32Array<ArrayBuffer> {
  const rounded = new Float32Array(values);
  const words = new Int32Array(rounded.buffer);
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    const nearest = rounded[i] as number;
    // NaN stays NaN; a value that became infinite becomes the largest float32, which a narrower dtype rounds up.
    if (nearest === value) continue;
    const isAway = Math.abs(nearest) > Math.abs(value);
    words[i] = ((words[i] as number) - (isAway ? 1 : 0)) | 1;
  }
  return rounded;
}

function countNotFinite(values: Float32Array): number {
  let count = 0;
  for (const value of values) if (!Number.isFinite(value)) count++;
  return count;
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
