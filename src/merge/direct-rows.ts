/** Rows of merged weights that kernels compute from elements, without float64 in between. */

import type { ProductRows } from '../tensor/float32/kernels.js';
import { convertOnPool, toFloat32 } from '../tensor/float32/kernels.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { cut } from '../work/byte-ranges.js';
import { addProduct, addProductOnPool, paddedLength, type RowFactors } from './product.js';
import type { DirectRows, MergedTensor } from './rows.js';
import { bytesOfElements } from './values.js';

/** Returns the factors of `count` rows from `first` on; null for a weight that is not its source plus a product. */
export type FactorsOf = (first: number, count: number) => RowFactors | null;

/** Rows of a stored tensor of the same dtype, plus a product of factors. */
export class ProductOfRows implements DirectRows {
  readonly #source: Tensor;
  readonly #merged: MergedTensor;
  readonly #factorsOf: FactorsOf;

  constructor(source: Tensor, merged: MergedTensor, factorsOf: FactorsOf) {
    this.#source = source;
    this.#merged = merged;
    this.#factorsOf = factorsOf;
  }

  fill(first: number, count: number, output: Uint8Array): boolean {
    const factors = this.#factorsOf(first, count);
    if (factors === null) return false;
    const { dtype, columns } = this.#merged;
    const bytes = elementsHere(this.#source, first * columns, count * columns);
    const { left, right } = factors;
    const rows = { from: dtype, to: dtype, bytes, output, left, right, columns };
    return isRight(addProduct(rows), this.#merged);
  }

  async fillOnPool(first: number, count: number, output: Uint8Array): Promise<boolean> {
    const factors = this.#factorsOf(first, count);
    if (factors === null) return false;
    const { dtype, columns } = this.#merged;
    const bytes = elementsForPool(this.#source, first * columns, count * columns);
    const rows = { ...factors, from: dtype, to: dtype, bytes, output, columns };
    const notFinite = await addProductOnPool(rows);
    TensorOf.sourceOf(this.#source).verify();
    return isRight(notFinite, this.#merged);
  }
}

/** Rows of stored tensors, each times its coefficient. */
export class WeightedRows implements DirectRows {
  readonly #sources: readonly Tensor[];
  readonly #merged: MergedTensor;
  readonly #coefficientsOf: () => readonly number[] | null;

  /** Tensors of at most 32 bits an element; coefficients are null until they are known. */
  constructor(
    sources: readonly Tensor[],
    merged: MergedTensor,
    coefficientsOf: () => readonly number[] | null,
  ) {
    this.#sources = sources;
    this.#merged = merged;
    this.#coefficientsOf = coefficientsOf;
  }

  fill(first: number, count: number, output: Uint8Array): boolean {
    const coefficients = this.#coefficientsOf();
    if (coefficients === null) return false;
    let notFinite = 0;
    for (const part of this.#parts(first, count, output, LENGTH_HERE)) {
      const values = takeValues(this.#sources.length * part.stride);
      for (const [i, source] of this.#sources.entries()) {
        const bytes = elementsHere(source, part.begin, part.length);
        toFloat32(source.dtype, bytes, rowOf(values, i, part));
        TensorOf.sourceOf(source).verify();
      }
      notFinite += addProduct(this.#product(coefficients, values, part));
      free.push(values);
    }
    return isRight(notFinite, this.#merged);
  }

  async fillOnPool(first: number, count: number, output: Uint8Array): Promise<boolean> {
    const coefficients = this.#coefficientsOf();
    if (coefficients === null) return false;
    let notFinite = 0;
    for (const part of this.#parts(first, count, output, LENGTH_ON_POOL)) {
      const values = takeValues(this.#sources.length * part.stride);
      for (const [i, source] of this.#sources.entries()) {
        const bytes = elementsForPool(source, part.begin, part.length);
        await convertOnPool(source.dtype, bytes, rowOf(values, i, part));
        TensorOf.sourceOf(source).verify();
      }
      notFinite += await addProductOnPool(this.#product(coefficients, values, part));
      free.push(values);
    }
    return isRight(notFinite, this.#merged);
  }

  *#parts(
    first: number,
    count: number,
    output: Uint8Array,
    atOnce: number,
  ): Generator<Part, void, void> {
    const { columns } = this.#merged;
    const start = first * columns;
    const width = output.length / (count * columns);
    for (const { begin, end } of cut(start, start + count * columns, atOnce)) {
      const [from, to] = [(begin - start) * width, (end - start) * width];
      const length = end - begin;
      const stride = paddedLength(length);
      yield { begin, length, stride, output: output.subarray(from, to) };
    }
  }

  #product(
    coefficients: readonly number[],
    values: Float32Array,
    { length, stride, output }: Part,
  ): ProductRows {
    const left = Float64Array.from(coefficients);
    const right = values.subarray(0, coefficients.length * stride);
    // Adding to -0 changes nothing, not even the sign of a zero.
    minusZeros ??= new Uint8Array(new Uint16Array(LENGTH_ON_POOL).fill(0x8000).buffer);
    const bytes = minusZeros.subarray(0, 2 * length);
    return { from: 'BF16', to: this.#merged.dtype, bytes, output, left, right, columns: length };
  }
}

/** Values that are computed at once: on this thread they stay in the second-level cache. */
const [LENGTH_HERE, LENGTH_ON_POOL] = [2 ** 14, 2 ** 17];

/** -0 in BF16. */
let minusZeros: Uint8Array | undefined;

/** Elements that are computed at once. */
interface Part {
  readonly begin: number;
  readonly length: number;
  /** Distance of the rows of values of two inputs. */
  readonly stride: number;
  readonly output: Uint8Array;
}

/** Memory of parts that are done: new memory costs more than what is computed in it. */
const free: Float32Array[] = [];

function takeValues(length: number): Float32Array {
  const values = free.pop();
  return values !== undefined && values.length >= length ? values : new Float32Array(length);
}

function rowOf(values: Float32Array, input: number, { length, stride }: Part): Float32Array {
  return values.subarray(input * stride, input * stride + length);
}

/** Elements in memory that may be the caller's. */
function elementsHere(tensor: Tensor, first: number, count: number): Uint8Array {
  const source = TensorOf.sourceOf(tensor);
  const { begin, end } = bytesOfElements(tensor, first, count);
  return source.isComputed ? source.window(begin, end) : source.sharedOrWindow(begin, end);
}

/** Elements in memory that no other code can reach. */
function elementsForPool(tensor: Tensor, first: number, count: number): Uint8Array {
  const source = TensorOf.sourceOf(tensor);
  const { begin, end } = bytesOfElements(tensor, first, count);
  return source.hold(begin, end) ?? source.window(begin, end).slice();
}

function isRight(notFinite: number, { mustBeFinite }: MergedTensor): boolean {
  return notFinite === 0 || !mustBeFinite;
}
