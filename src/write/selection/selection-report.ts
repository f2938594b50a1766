/** What a selection has done to the tensors of a source. */

import { forEachInSlices, type Slices } from '../../header/json/slices.js';
import type { Selected } from './select.js';

/** Which tensors were left out, which were cast, and what was lost. */
export interface SelectionReport {
  /** Names in the source of the tensors that `names` or `select` left out; without aliases. */
  readonly leftOut: readonly string[];
  /** New names of the tensors that were cast. */
  readonly cast: readonly string[];
  /**
   * New names of the tensors that `dtype` would have cast, and that are as they were because they belong to
   * quantized weights: scales, zero points, code books. They are told by the names and dtypes of what stands
   * beside them in the source. `select` casts what it names.
   */
  readonly uncast: readonly string[];
  /**
   * How many elements of a tensor were too large for its new dtype, by its new name: finite ones that became
   * infinity; in F8_E4M3, which has none, all that became 448. Tensors without such elements are not in it.
   */
  readonly overflowed: ReadonlyMap<string, number>;
}

/** The report where all tensors are taken as they are. */
export function emptyReport(): SelectionReport {
  return { leftOut: [], cast: [], uncast: [], overflowed: new Map() };
}

/** The report of tensors that are to be written; `overflowed` is filled while they are. */
export function* reportOf(
  selected: readonly Selected<unknown>[],
  leftOut: readonly string[],
  overflowed: ReadonlyMap<string, number>,
): Slices<SelectionReport> {
  const [casts, uncast]: [string[], string[]] = [[], []];
  yield* forEachInSlices(selected, ({ name, cast, isUncast }) => {
    if (cast !== null) casts.push(name);
    if (isUncast) uncast.push(name);
  });
  return { leftOut, cast: casts, uncast, overflowed };
}

/** What a cast of this tensor reports to: adds to `overflowed`. */
export function counterOf(overflowed: Map<string, number>, name: string): (count: number) => void {
  return (count) => overflowed.set(name, (overflowed.get(name) ?? 0) + count);
}
