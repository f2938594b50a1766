/** What casts have done to tensors. */

/** Which tensors were cast, and what was lost. */
export interface CastReport {
  /** New names of the tensors that were cast. */
  readonly cast: readonly string[];
  /**
   * How many elements of a tensor were too large for its new dtype, by its new name: finite ones that became
   * infinity; in F8_E4M3, which has none, all that became 448. Tensors without such elements are not in it.
   */
  readonly overflowed: ReadonlyMap<string, number>;
}

/** What a cast of this tensor reports to: adds to `overflowed`. */
export function counterOf(overflowed: Map<string, number>, name: string): (count: number) => void {
  return (count) => overflowed.set(name, (overflowed.get(name) ?? 0) + count);
}
