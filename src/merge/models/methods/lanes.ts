/** Sums in lanes by position: the same in pieces of any length, and by kernels. */

/** Number of lanes. */
export const LANES = 8;

/** Adds up lanes, in order. */
export function sumOfLanes(lanes: Float64Array): number {
  return lanes.reduce((sum, lane) => sum + lane, 0);
}
