/** Rows of merged weights that kernels compute from elements, without float64 in between. */

import type { ProductRows } from '../tensor/float32/kernels.js';
import { convertOnPool, toFloat32 } from '../tensor/float32/kernels.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { addProduct, addProductOnPool, paddedLength, type RowFactors } from './product.js';
import type { DirectRows, MergedTensor } from './rows.js';
import { bytesOfElements } from './values.js';

/** Returns the factors of `count` rows from `first` on; null of a weight that is more than its source plus a product. */
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
    const { begin, length, right, rowOf } = this.#place(first, count);
    for (const [i, source] of this.#sources.entries()) {
      toFloat32(source.dtype, elementsHere(source, begin, length), rowOf(i));
      TensorOf.sourceOf(source).verify();
    }
    return isRight(addProduct(this.#product(coefficients, right, length, output)), this.#merged);
  }

  async fillOnPool(first: number, count: number, output: Uint8Array): Promise<boolean> {
    const coefficients = this.#coefficientsOf();
    if (coefficients === null) return false;
    const { begin, length, right, rowOf } = this.#place(first, count);
    for (const [i, source] of this.#sources.entries()) {
      await convertOnPool(source.dtype, elementsForPool(source, begin, length), rowOf(i));
      TensorOf.sourceOf(source).verify();
    }
    const rows = this.#product(coefficients, right, length, output);
    return isRight(await addProductOnPool(rows), this.#merged);
  }

  #place(
    first: number,
    count: number,
  ): {
    readonly begin: number;
    readonly length: number;
    readonly right: Float32Array;
    rowOf(source: number): Float32Array;
  } {
    const { columns } = this.#merged;
    const length = count * columns;
    const stride = paddedLength(length);
    const right = new Float32Array(this.#sources.length * stride);
    const rowOf = (i: number): Float32Array => right.subarray(i * stride, i * stride + length);
    return { begin: first * columns, length, right, rowOf };
  }

  #product(
    coefficients: readonly number[],
    right: Float32Array,
    length: number,
    output: Uint8Array,
  ): ProductRows {
    // Adding to -0 changes nothing, not even the sign of a zero.
    const bytes = new Uint8Array(new Uint16Array(length).fill(0x8000).buffer);
    const left = Float64Array.from(coefficients);
    return { from: 'BF16', to: this.#merged.dtype, bytes, output, left, right, columns: length };
  }
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
