/** A naive implementation of slicing, to compare with. */
import fc from 'fast-check';
import type { SliceIndex } from '../../src/tensor/slice.js';

/** Random shapes up to a rank, with a valid index: every kind of item, sign and step. */
export function shapeAndIndex(
  maxRank: number,
  sizes: readonly number[] = [0, 1, 2, 3, 4, 5],
): fc.Arbitrary<[number[], SliceIndex[]]> {
  return fc
    .array(fc.constantFrom(...sizes), { maxLength: maxRank })
    .chain((shape) =>
      fc.tuple(
        fc.constant(shape),
        fc.tuple(...shape.map(itemFor)),
        fc.option(fc.tuple(fc.nat(shape.length), fc.nat(shape.length))),
        fc.nat(shape.length),
      ),
    )
    .map(([shape, items, ellipsis, length]) => {
      if (ellipsis === null) return [shape, items.slice(0, length)];
      const [begin, end] = [Math.min(...ellipsis), Math.max(...ellipsis)];
      return [shape, [...items.slice(0, begin), '...', ...items.slice(end)]];
    });
}

function itemFor(size: number): fc.Arbitrary<SliceIndex> {
  const bound = fc.option(fc.integer({ min: -size - 2, max: size + 2 }));
  const step = fc.option(fc.constantFrom(1, 2, 3, 4, 7, -1, -2, -3, -4, -7));
  const range = fc.oneof(
    { weight: 1, arbitrary: fc.tuple(bound, bound) },
    { weight: 2, arbitrary: fc.tuple(bound, bound, step) },
  );
  const items: fc.Arbitrary<SliceIndex>[] = [fc.constant(null), range, range];
  if (size > 0) items.push(fc.integer({ min: -size, max: size - 1 }));
  return fc.oneof(...items);
}

/** Positions that an index selects, found by walking every dimension step by step. */
export function naivePositions(shape: readonly number[], index: readonly SliceIndex[]): number[] {
  const ellipsis = index.indexOf('...');
  const items = ellipsis < 0 ? [...index, '...' as const] : [...index];
  const whole = new Array<null>(shape.length - items.length + 1).fill(null);
  items.splice(items.indexOf('...'), 1, ...whole);
  let positions = [0];
  shape.forEach((size, dimension) => {
    const taken = naiveRange(size, items[dimension] as SliceIndex);
    positions = positions.flatMap((outer) => taken.map((inner) => outer * size + inner));
  });
  return positions;
}

function naiveRange(size: number, item: SliceIndex): number[] {
  if (typeof item === 'number') return [item < 0 ? item + size : item];
  const [start, stop, step] = Array.isArray(item) ? item : [null, null, null];
  const stride = step ?? 1;
  const from = start === null ? (stride > 0 ? 0 : size - 1) : start < 0 ? start + size : start;
  const to = stop === null ? (stride > 0 ? size : -1) : stop < 0 ? stop + size : stop;
  const positions = [];
  // A start outside moves to the border first; the steps count from there.
  const inside = stride > 0 ? Math.max(from, 0) : Math.min(from, size - 1);
  for (let i = inside; stride > 0 ? i < to : i > to; i += stride) {
    if (i < 0 || i >= size) break;
    positions.push(i);
  }
  return positions;
}
