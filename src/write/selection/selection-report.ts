/** The report of a selection: tensors left out, cast, not cast or dequantized, and overflow. */

import { forEachYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import type { Selected } from './select.js';

/** The tensors left out, those cast, and the elements that overflowed. */
export interface SelectionReport {
  /** Names in the source of the tensors that `names` left out; without aliases. */
  readonly excluded: readonly string[];
  /**
   * Names that several shards have, or several sources that are joined: one tensor of each was taken, the one in the
   * shard that the index names.
   */
  readonly duplicates: readonly string[];
  /** New names of the tensors that were cast, without dequantized ones. */
  readonly cast: readonly string[];
  /** New names of the tensors written in place of quantized ones. */
  readonly dequantized: readonly string[];
  /**
   * New names of the tensors that `dtype` did not cast because they belong to quantized weights: scales, zero points,
   * code books. They are recognized by the names and dtypes of all tensors of the source. If `dtype` is a function, it
   * can cast them, and `notCast` is empty.
   */
  readonly notCast: readonly string[];
  /**
   * Number of elements too large for the new dtype, by the tensor's new name: finite values that became infinity; for
   * F8_E4M3, which lacks infinity, all that became 448. Tensors without such elements are absent.
   */
  readonly overflowed: ReadonlyMap<string, number>;
}

/** The report when all tensors are taken unchanged. */
export function emptyReport(duplicates: readonly string[] = []): SelectionReport {
  return {
    excluded: [],
    duplicates,
    cast: [],
    dequantized: [],
    notCast: [],
    overflowed: new Map(),
  };
}

/** Starts the report of tensors to be written; `overflowed` is filled during the writes. */
export function* reportOf(
  selected: readonly Selected<unknown>[],
  { excluded, duplicates }: Pick<SelectionReport, 'excluded' | 'duplicates'>,
  overflowed: ReadonlyMap<string, number>,
): Work<SelectionReport> {
  const [cast, dequantized, notCast]: [string[], string[], string[]] = [[], [], []];
  yield* forEachYielding(selected, (tensor) => {
    const { name } = tensor;
    if (tensor.isDequantized) dequantized.push(name);
    else if (tensor.cast !== null) cast.push(name);
    if (tensor.isNotCast) notCast.push(name);
  });
  return { excluded, duplicates, cast, dequantized, notCast, overflowed };
}

/** Returns the function that adds a cast's count to `overflowed`. */
export function counterOf(overflowed: Map<string, number>, name: string): (count: number) => void {
  return (count) => overflowed.set(name, (overflowed.get(name) ?? 0) + count);
}
