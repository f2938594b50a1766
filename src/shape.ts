/** Shapes: lists of dimensions, outermost first, C order. An empty list is a scalar. */

/** Number of elements of a shape: the product of its dimensions, 1 for a scalar. */
export function elementCountOf(shape: readonly number[]): number {
  let count = 1;
  for (const dimension of shape) count *= dimension;
  return count;
}

/** Distance, in elements, between neighbours along each dimension of a C-ordered shape. */
export function stridesOf(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= shape[i] as number;
  }
  return strides;
}
