import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { elementCountOf } from '../../src/format/tensor-spec.js';
import { extentOf, gather, splitCopy } from '../../src/tensor/gather.js';
import { planSlice } from '../../src/tensor/slice.js';
import { naivePositions, shapeAndIndex } from './slice-oracle.js';

const ELEMENT_LENGTHS = [1, 2, 4, 8, 64] as const;

function bytesOf(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => (i * 167 + (i >> 8)) & 255);
}

/** The same bytes at an odd place of a larger buffer. */
function misplaced(bytes: Uint8Array, byteOffset: number): Uint8Array {
  const place = new Uint8Array(bytes.length + byteOffset + 5).subarray(byteOffset);
  place.set(bytes);
  return place.subarray(0, bytes.length);
}

function naiveGather(source: Uint8Array, positions: readonly number[], length: number): number[] {
  return positions.flatMap((position) => [
    ...source.subarray(position * length, (position + 1) * length),
  ]);
}

describe('gather', () => {
  it('copies elements of every size from and to any address', () => {
    fc.assert(
      fc.property(
        shapeAndIndex(4),
        fc.constantFrom(...ELEMENT_LENGTHS),
        fc.nat(9),
        fc.nat(9),
        fc.nat(9),
        ([shape, index], length, sourceShift, targetShift, targetByteOffset) => {
          const source = bytesOf(elementCountOf(shape) * length);
          const plan = planSlice(shape, index, length * 8);
          const { byteLength } = plan;
          const target = misplaced(new Uint8Array(byteLength + targetByteOffset + 3), targetShift);
          target.fill(77);
          gather(plan, misplaced(source, sourceShift), 0, target, targetByteOffset);
          const expected = naiveGather(source, naivePositions(shape, index), length);
          const before = new Array(targetByteOffset).fill(77);
          expect([...target]).toEqual([...before, ...expected, 77, 77, 77]);
        },
      ),
      { numRuns: 1500 },
    );
  });

  it('reads windows that begin at any byte before the first that is selected', () => {
    const source = bytesOf(64);
    for (const [begin, end] of [
      [3, 7],
      [2, 6],
      [5, 7],
      [7, 8],
    ] as const) {
      const plan = planSlice([8, 8], [null, [begin, end]], 8);
      const positions = naivePositions([8, 8], [null, [begin, end]]);
      for (let first = 0; first <= begin; first++) {
        const target = new Uint8Array(plan.byteLength);
        gather(plan, source.slice(first), first, target);
        expect([...target], `${begin} from ${first}`).toEqual(naiveGather(source, positions, 1));
      }
    }
  });

  it('keeps every bit pattern, signalling NaNs included', () => {
    const source = new Uint32Array([0x7f800001, 1, 0xffbfffff, 2, 0x7ff00000, 3]);
    const plan = planSlice([3, 2], [null, 0], 32);
    const target = new Uint32Array(3);
    gather(plan, new Uint8Array(source.buffer), 0, new Uint8Array(target.buffer));
    expect([...target]).toEqual([0x7f800001, 0xffbfffff, 0x7ff00000]);
  });

  it('refuses a source without the selected bytes, and a target without room', () => {
    const plan = planSlice(
      [4, 4],
      [
        [1, 3],
        [null, null, 2],
      ],
      16,
    );
    expect(extentOf(plan)).toEqual({ begin: 8, end: 22 });
    const target = new Uint8Array(8);
    gather(plan, new Uint8Array(14), 8, target);
    expect(() => gather(plan, new Uint8Array(13), 8, target)).toThrow(
      'source must be bytes 8 to 22 of the tensor, but is "bytes 8 to 21"',
    );
    expect(() => gather(plan, new Uint8Array(14), 9, target)).toThrow(RangeError);
    expect(() => gather(plan, new Uint8Array(14), 8, target, 1)).toThrow(
      'target must be at least 9 bytes long, but is 8',
    );
  });

  it('touches nothing when nothing is selected', () => {
    const plan = planSlice([3, 0], [], 32);
    expect(extentOf(plan)).toEqual({ begin: 0, end: 0 });
    gather(plan, new Uint8Array(0), 500, new Uint8Array(0));
    expect([...splitCopy(plan, 1)]).toEqual([]);
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
          let written = 0;
          for (const { copy, targetByteOffset } of splitCopy(plan, maxExtent)) {
            const { begin, end } = extentOf(copy);
            expect(end - begin).toBeLessThanOrEqual(maxExtent);
            expect(targetByteOffset).toBe(written);
            gather(copy, source.slice(begin, end), begin, target, targetByteOffset);
            written += copy.byteLength;
          }
          expect(written).toBe(plan.byteLength);
          const expected = naiveGather(source, naivePositions(shape, index), length);
          expect([...target]).toEqual(expected);
        },
      ),
      { numRuns: 1500 },
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
    expect(first?.copy.loops).toEqual([{ count: 8, byteStride: -(2 ** 21) }]);
    expect(pieces.next().value?.targetByteOffset).toBe(48);
  });
});
