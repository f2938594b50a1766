/** Rows of merged weights that kernels compute from elements, without float64 in between. */

import type { CastSource } from '../tensor/float32/cast.js';
import { type MergedElements, nativeKernels } from '../tensor/float32/kernels.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { elementsForPool, elementsHere, inputCount } from './elements.js';
import { addProduct, addProductOnPool, type RowFactors } from './product.js';
import type { DirectRows, MergedTensor } from './rows.js';

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
    const notFinite = addProduct({ from: dtype, to: dtype, bytes, output, left, right, columns });
    TensorOf.sourceOf(this.#source).verify();
    return isRight(notFinite, this.#merged);
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

/** Rows of stored tensors of up to 32 bits an element, merged by rules. */
export class MergedRows implements DirectRows {
  readonly #sources: readonly Tensor[];
  readonly #dtypes: readonly CastSource[];
  readonly #merged: MergedTensor;
  readonly #rules: MergeRules;

  constructor(sources: readonly Tensor[], merged: MergedTensor, rules: MergeRules) {
    this.#sources = sources;
    this.#dtypes = sources.map(({ dtype }) => dtype as CastSource);
    this.#merged = merged;
    this.#rules = rules;
  }

  fill(first: number, count: number, output: Uint8Array): boolean {
    const elements = this.#elements(this.#rules.here(), first, count, output, elementsHere);
    return this.#isRight(nativeKernels()?.mergeElements(elements));
  }

  async fillOnPool(
    first: number,
    count: number,
    output: Uint8Array,
    signal: AbortSignal | undefined,
  ): Promise<boolean> {
    const rules = await this.#rules.onPool(signal);
    const elements = this.#elements(rules, first, count, output, elementsForPool);
    return this.#isRight(await nativeKernels()?.mergeElementsAsync(elements));
  }

  #elements(
    rules: Float64Array,
    first: number,
    count: number,
    output: Uint8Array,
    read: typeof elementsHere,
  ): MergedElements {
    const { dtype: to, columns } = this.#merged;
    const at = first * columns;
    const [sources, dtypes] = [this.#sources, this.#dtypes];
    const used = inputCount(rules, sources.length);
    const from = used === sources.length ? dtypes : dtypes.slice(0, used);
    const bytes = from.map((_, i) => read(sources[i] as Tensor, at, count * columns));
    return { from, bytes, first: at, to, rules, output };
  }

  #isRight(notFinite: number | undefined): boolean {
    for (const source of this.#sources) TensorOf.sourceOf(source).verify();
    return notFinite !== undefined && isRight(notFinite, this.#merged);
  }
}

/** Rules of a merge, which may depend on all rows. */
export interface MergeRules {
  here(): Float64Array;
  onPool(signal: AbortSignal | undefined): Promise<Float64Array>;
}

function isRight(notFinite: number, { mustBeFinite }: MergedTensor): boolean {
  return notFinite === 0 || !mustBeFinite;
}
