/** The changes of two tensors since their common base. */

import type { TransferOptions } from '../../work/transfer.js';
import { addPairs, emptySums } from './pair-sums.js';
import { alikeWindows, type SliceableTensor } from './tensor-values.js';

/** Adds up changes of one tensor, or of several. */
export class Changes {
  readonly #sums = emptySums();

  /** Adds the values at the same places of the base and of both tensors; not those that are not finite in all three. */
  add(base: ArrayLike<number>, a: ArrayLike<number>, b: ArrayLike<number>): void {
    addPairs(this.#sums, changeOf(a, base), changeOf(b, base));
  }

  /** Adds all values that were added to others. */
  addAll(others: Changes): void {
    this.#sums.products.add(others.#sums.products.sum);
  }

  /** Cosine similarity of a − base and b − base; null if one side has no change. */
  get cosine(): number | null {
    return this.#sums.products.result().cosine;
  }
}

function changeOf(values: ArrayLike<number>, base: ArrayLike<number>): Float64Array {
  const change = new Float64Array(values.length);
  for (let i = 0; i < change.length; i++) change[i] = (values[i] as number) - (base[i] as number);
  return change;
}

/**
 * The changes of two tensors of one shape since a base of that shape.
 *
 * @throws As `tensorValues`
 */
export async function changesOf(
  tensors: readonly [base: SliceableTensor, a: SliceableTensor, b: SliceableTensor],
  options: TransferOptions,
): Promise<Changes> {
  const changes = new Changes();
  for await (const { values } of alikeWindows(tensors, options)) {
    changes.add(...(values as [ArrayLike<number>, ArrayLike<number>, ArrayLike<number>]));
  }
  return changes;
}
