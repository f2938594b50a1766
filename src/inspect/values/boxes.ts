/** Cuts an array into boxes. */

import { elementCountOf } from '../../header/tensor-spec.js';
import { cut } from '../../work/byte-ranges.js';

/** Consecutive boxes of at most `maxElements` elements. */
export function* boxesOf(
  shape: readonly number[],
  maxElements: number,
): Generator<(readonly [begin: number, end: number])[]> {
  let axis = 0;
  let inner = elementCountOf(shape.slice(1));
  while (inner > maxElements) inner /= shape[++axis] as number;
  const outer = shape.slice(0, axis);
  const length = shape[axis] as number;
  const step = Math.floor(maxElements / inner);
  for (let at = 0; at < elementCountOf(outer); at++) {
    let left = at;
    const before = outer.toReversed().map((size): readonly [number, number] => {
      const index = left % size;
      left = Math.floor(left / size);
      return [index, index + 1];
    });
    for (const { begin, end } of cut(0, length, step)) {
      yield [...before.toReversed(), [begin, end]];
    }
  }
}
