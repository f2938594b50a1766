import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { elementCountOf } from '../../src/header/tensor-spec.js';
import { gather } from '../../src/tensor/gather.js';
import { planSlice } from '../../src/tensor/slice.js';
import { extentOf, splitCopy, stridedCopy } from '../../src/tensor/strided-copy.js';
import { nightly } from '../support/nightly.js';
import { naivePositions, shapeAndIndex } from './slice-oracle.js';
import { bytesOf, itemsOf, naiveGather, stridedItems } from './strided-oracle.js';

const ELEMENT_LENGTHS = [1, 2, 4, 8, 64] as const;

/** The same bytes at an odd place of a larger buffer. */
function misplaced(bytes: Uint8Array, byteOffset: number): Uint8Array {
  const place = new Uint8Array(bytes.length + byteOffset + 5).subarray(byteOffset);
  place.set(bytes);
  return place.subarray(0, bytes.length);
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
          const whole = new Uint8Array(target.length).fill(77);
          whole.set(expected, targetByteOffset);
          expect(target).toEqual(whole);
        },
      ),
      { numRuns: nightly(1500, 500) },
    );
  });

  it('copies what a loop over single items copies, whatever the strides', () => {
    fc.assert(
      fc.property(stridedItems, fc.nat(5), fc.nat(5), (items, sourceShift, targetShift) => {
        const { counts, strides, first, itemByteLength } = items;
        const copy = stridedCopy(counts, strides, first, itemByteLength);
        const { source, expected } = itemsOf(items);
        const target = misplaced(new Uint8Array(expected.length), targetShift);
        gather(copy, misplaced(source, sourceShift), 0, target);
        expect(copy.byteLength).toBe(expected.length);
        expect(Buffer.compare(target, expected)).toBe(0);
      }),
      { numRuns: 500 },
    );
  });

  it('transposes in tiles, whole and cut off ones, in words of every width', () => {
    for (const itemByteLength of [1, 2, 4, 8, 12, 100, 256]) {
      const items = { counts: [3, 70, 45], strides: [0, 1, 70], first: 0, itemByteLength };
      const { source, expected } = itemsOf(items);
      const target = new Uint8Array(expected.length);
      gather(stridedCopy(items.counts, items.strides, 0, itemByteLength), source, 0, target);
      expect(Buffer.compare(target, expected), `${itemByteLength}`).toBe(0);
    }
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
        expect(target, `${begin} from ${first}`).toEqual(naiveGather(source, positions, 1));
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

  it('leaves out what other pieces bring, up to the last byte', () => {
    for (const runByteLength of [1, 2, 4, 12, 132]) {
      const step = 2 * runByteLength;
      const source = bytesOf(4 * step);
      const target = new Uint8Array(4 * step).fill(77);
      const loops = [{ count: 3, from: step, to: step }];
      gather(
        { byteLength: 3 * runByteLength, byteOffset: 0, runByteLength, loops },
        source,
        0,
        target,
      );
      const isCopied = (at: number) => at < 3 * step && at % step < runByteLength;
      expect(target).toEqual(source.map((byte, at) => (isCopied(at) ? byte : 77)));
    }
  });

  it('touches nothing when nothing is selected', () => {
    const plan = planSlice([3, 0], [], 32);
    expect(extentOf(plan)).toEqual({ begin: 0, end: 0 });
    gather(plan, new Uint8Array(0), 500, new Uint8Array(0));
    expect([...splitCopy(plan, 1)]).toEqual([]);
  });
});
