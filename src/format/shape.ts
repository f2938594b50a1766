/** Shapes: lists of dimensions, outermost first, C order. An empty list is a scalar. */

/** Number of elements of a shape: the product of its dimensions, 1 for a scalar. */
export function elementCountOf(shape: readonly number[]): number {
  let count = 1;
  for (const dimension of shape) count *= dimension;
  return count;
}
