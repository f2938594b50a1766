import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { elementCountOf } from '../../src/header/tensor-spec.js';
import { gather } from '../../src/tensor/gather.js';
import { planSlice } from '../../src/tensor/slice.js';
import { extentOf, splitCopy, stridedCopy, windowOf } from '../../src/tensor/strided-copy.js';
import { nightly } from '../support/nightly.js';
import { naivePositions, shapeAndIndex } from './slice-oracle.js';
import { bytesOf, itemsOf, naiveGather, stridedItems } from './strided-oracle.js';

const ELEMENT_LENGTHS = [1, 2, 4, 8, 64] as const;

describe('stridedCopy', () => {
  it('has as few loops as possible, around the longest run', () => {
    // Three dimensions that follow each other; one that is repeated; one of a single item.
    expect(stridedCopy([5, 4, 3, 1, 2], [0, 6, 2, 77, 1], 9, 4)).toEqual({
      byteLength: 5 * 24 * 4,
      byteOffset: 36,
      runByteLength: 24 * 4,
      loops: [{ count: 5, from: 0, to: 96 }],
    });
    expect(stridedCopy([4, 6], [-6, -1], 23, 2)).toEqual({
      ...{ byteLength: 48, byteOffset: 46, runByteLength: 2 },
      loops: [{ count: 24, from: -2, to: 2 }],
    });
    expect(stridedCopy([], [], 3, 8)).toEqual({
      ...{ byteLength: 8, byteOffset: 24, runByteLength: 8 },
      loops: [],
    });
  });

  it('is nothing where a count is 0, however large the others are', () => {
    const vast = new Array<number>(40).fill(2 ** 53 - 1);
    expect(stridedCopy([...vast, 0], [...vast, 1], 5, 8)).toEqual({
      ...{ byteLength: 0, byteOffset: 0, runByteLength: 0 },
      loops: [],
    });
  });
});

describe('extentOf', () => {
  it('is the smallest range that holds every selected byte', () => {
    fc.assert(
      fc.property(shapeAndIndex(5), ([shape, index]) => {
        const positions = naivePositions(shape, index);
        fc.pre(positions.length > 0);
        const begin = Math.min(...positions) * 8;
        const end = Math.max(...positions) * 8 + 8;
        expect(extentOf(planSlice(shape, index, 64))).toEqual({ begin, end });
      }),
    );
  });
});

describe('splitCopy', () => {
  it('gives pieces of bounded extent that make up the result, in order', () => {
    fc.assert(
      fc.property(
        shapeAndIndex(5),
        fc.constantFrom(...ELEMENT_LENGTHS),
        fc.integer({ min: 1, max: 600 }),
        ([shape, index], length, maxExtent) => {
          const source = bytesOf(elementCountOf(shape) * length);
          const plan = planSlice(shape, index, length * 8);
          const target = new Uint8Array(plan.byteLength);
          const offsets: number[] = [];
          const expectedOffsets: number[] = [];
          let [written, longest] = [0, 0];
          for (const { copy, targetByteOffset } of splitCopy(plan, maxExtent)) {
            const { begin, end } = extentOf(copy);
            longest = Math.max(longest, end - begin);
            offsets.push(targetByteOffset);
            expectedOffsets.push(written);
            gather(copy, source.slice(begin, end), begin, target, targetByteOffset);
            written += copy.byteLength;
          }
          expect(offsets).toEqual(expectedOffsets);
          expect(longest).toBeLessThanOrEqual(maxExtent);
          expect(written).toBe(plan.byteLength);
          const expected = naiveGather(source, naivePositions(shape, index), length);
          expect(target).toEqual(expected);
        },
      ),
      { numRuns: nightly(1500, 400) },
    );
  });

  it('takes as many rounds as fit', () => {
    // 100 rows of 1 000 bytes, of which the first 10 are taken.
    const plan = planSlice([100, 1000], [null, [0, 10]], 8);
    expect([...splitCopy(plan, 10_000)].map(({ copy }) => copy.byteLength)).toEqual(
      new Array(10).fill(100),
    );
    expect([...splitCopy(plan, 9_009)].map(({ copy }) => copy.byteLength)[0]).toBe(90);
    expect([...splitCopy(plan, 99_010)]).toHaveLength(1);
    expect([...splitCopy(plan, 10)]).toHaveLength(100);
    expect([...splitCopy(plan, 4)]).toHaveLength(300);
  });

  it('plans pieces of a tensor far above 4 GiB', () => {
    const plan = planSlice(
      [2 ** 20, 2 ** 20],
      [
        [null, null, -1],
        [5, 8],
      ],
      16,
    );
    const pieces = splitCopy(plan, 2 ** 24);
    const first = pieces.next().value;
    expect(first?.copy).toMatchObject({ byteOffset: (2 ** 20 - 1) * 2 ** 21 + 10, byteLength: 48 });
    expect(first?.copy.loops).toEqual([{ count: 8, from: -(2 ** 21), to: 6 }]);
    expect(pieces.next().value?.targetByteOffset).toBe(48);
  });

  it('cuts any copy into pieces of bounded extent, each byte once', () => {
    fc.assert(
      fc.property(stridedItems, fc.integer({ min: 1, max: 3000 }), (items, maxExtent) => {
        const { counts, strides, first, itemByteLength } = items;
        const whole = stridedCopy(counts, strides, first, itemByteLength);
        const { source, expected } = itemsOf(items);
        const target = new Uint8Array(expected.length);
        let [copied, longest] = [0, 0];
        for (const { copy, targetByteOffset } of splitCopy(whole, maxExtent)) {
          const { begin, end } = extentOf(copy);
          longest = Math.max(longest, end - begin);
          gather(copy, source.slice(begin, end), begin, target, targetByteOffset);
          copied += copy.byteLength;
        }
        expect(longest).toBeLessThanOrEqual(maxExtent);
        expect(copied).toBe(expected.length);
        expect(Buffer.compare(target, expected)).toBe(0);
      }),
      { numRuns: 300 },
    );
  });
});

describe('windowOf', () => {
  it('makes any bytes of the result, and no others', () => {
    fc.assert(
      fc.property(stridedItems, fc.nat(), fc.nat(), (items, a, b) => {
        const { counts, strides, first, itemByteLength } = items;
        const whole = stridedCopy(counts, strides, first, itemByteLength);
        const { source, expected } = itemsOf(items);
        const [begin = 0, end = 0] = [a, b]
          .map((at) => at % (expected.length + 1))
          .toSorted((x, y) => x - y);
        const target = new Uint8Array(end - begin);
        let copied = 0;
        for (const { copy, targetByteOffset } of windowOf(whole, begin, end)) {
          expect(targetByteOffset).toBe(copied);
          gather(copy, source, 0, target, targetByteOffset);
          copied += copy.byteLength;
        }
        expect(copied).toBe(end - begin);
        expect(Buffer.compare(target, expected.subarray(begin, end))).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  it('takes whole rounds together', () => {
    // 10 rows of 4 bytes, 100 apart.
    const rows = stridedCopy([10, 4], [100, 1], 0, 1);
    const pieces = [...windowOf(rows, 2, 38)];
    expect(pieces.map(({ copy }) => copy.byteLength)).toEqual([2, 32, 2]);
    expect(pieces.map(({ copy }) => copy.byteOffset)).toEqual([2, 100, 900]);
    expect([...windowOf(rows, 5, 7)].map(({ copy }) => copy.byteOffset)).toEqual([101]);
    expect([...windowOf(rows, 8, 8)]).toEqual([]);
  });
});
