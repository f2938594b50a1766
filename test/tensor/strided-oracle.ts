/** Strided items, and the bytes that a loop over single ones gives. */
import fc from 'fast-check';

export interface StridedItems {
  readonly counts: readonly number[];
  /** In items, of any sign. */
  readonly strides: readonly number[];
  readonly first: number;
  readonly itemByteLength: number;
}

/** Random items: strides that repeat, reverse, cross and overlap; none where a count is 0. */
export const stridedItems: fc.Arbitrary<StridedItems> = fc
  .record({
    itemByteLength: fc.constantFrom(1, 2, 3, 4, 6, 8, 16, 40, 132),
    axes: fc.array(fc.tuple(fc.nat(7), fc.integer({ min: -12, max: 40 })), { maxLength: 5 }),
    spare: fc.nat(9),
  })
  .map(({ itemByteLength, axes, spare }) => {
    const back = axes.map(([count, stride]) => Math.max(0, (1 - count) * stride));
    return {
      counts: axes.map(([count]) => count),
      strides: axes.map(([, stride]) => stride),
      first: back.reduce((sum, each) => sum + each, spare),
      itemByteLength,
    };
  });

/** Bytes that hold the items, and the items one after the other in C order. */
export function itemsOf({ counts, strides, first, itemByteLength }: StridedItems): {
  readonly source: Uint8Array;
  readonly expected: Uint8Array;
} {
  let positions = [first];
  counts.forEach((count, axis) => {
    positions = positions.flatMap((position) =>
      Array.from({ length: count }, (_, i) => position + i * (strides[axis] as number)),
    );
  });
  const itemCount = positions.reduce((most, position) => Math.max(most, position + 1), 0);
  const source = bytesOf(itemCount * itemByteLength);
  return { source, expected: naiveGather(source, positions, itemByteLength) };
}

export function bytesOf(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = i * 167 + (i >> 8);
  return bytes;
}

/** The items at these positions, which are counted in items. */
export function naiveGather(
  source: Uint8Array,
  positions: readonly number[],
  length: number,
): Uint8Array {
  const items = new Uint8Array(positions.length * length);
  positions.forEach((position, i) => {
    items.set(source.subarray(position * length, (position + 1) * length), i * length);
  });
  return items;
}
