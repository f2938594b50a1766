import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { planSlice } from '../../src/tensor/slice.js';
import {
  type Axis,
  formatSelection,
  partIndices,
  placeOf,
  planeOf,
  within,
} from '../../viewer/selection.js';
import { parseSlice } from '../support/api.js';

const bound = fc.option(fc.integer({ min: -8, max: 8 }), { nil: undefined });
const range = fc
  .tuple(bound, bound, fc.option(fc.integer({ min: -3, max: 3 }), { nil: undefined }))
  .filter(([, , step]) => step !== 0)
  .map(
    ([start, stop, step]) => `${start ?? ''}:${stop ?? ''}${step === undefined ? '' : `:${step}`}`,
  );
const index = fc.oneof(range, fc.integer({ min: -8, max: 8 }).map(String), fc.constant('...'));
const shapes = fc.array(fc.integer({ min: 0, max: 6 }), { maxLength: 4 });

/** The positions of the elements that a selection takes, and the shape of the result. */
function taken(shape: readonly number[], indices: Parameters<typeof planSlice>[1]) {
  const {
    shape: result,
    byteOffset,
    elementCount,
    loops,
    runByteLength,
  } = planSlice(shape, indices, 8);
  return elementCount === 0 ? { result } : { result, byteOffset, loops, runByteLength };
}

describe('a part of a tensor', () => {
  it('is written as the library reads it, and takes the same', () => {
    fc.assert(
      fc.property(shapes, fc.array(index, { maxLength: 5 }), (shape, indices) => {
        const text = indices.join(', ');
        let axes: Axis[];
        try {
          axes = parseSlice(text, shape);
        } catch {
          return;
        }
        const expected = taken(shape, [text]);
        expect(taken(shape, partIndices(axes))).toEqual(expected);
        expect(taken(shape, [formatSelection(axes, shape)])).toEqual(expected);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('planeOf', () => {
  it('keeps the last two axes, and the first index of those before', () => {
    const plane = (text: string, shape: number[]) =>
      formatSelection(planeOf(parseSlice(text, shape)), shape);
    expect(plane('', [2, 3, 4, 5])).toBe('0, 0, :, :');
    expect(plane('1:, :, 2', [2, 3, 4, 5])).toBe('1, :, 2, :');
    expect(plane('', [4, 5])).toBe('');
  });
});

describe('within', () => {
  it('takes a part of a part', () => {
    const [axis] = parseSlice('8:0:-2', [10]) as [Axis];
    expect(within(axis, 1, 3)).toEqual({ start: 6, step: -2, count: 2, kept: true });
    expect(within(axis, 0, 99, 3)).toEqual({ start: 8, step: -6, count: 2, kept: true });
  });
});

describe('placeOf', () => {
  const place = (index: number[], text: string, shape: number[]) =>
    placeOf(index, parseSlice(text, shape));

  it('is along the axes that a selection keeps', () => {
    expect(place([200, 13], '', [256, 1024])).toEqual([200, 13]);
    expect(place([200, 13], '200:, 13:', [256, 1024])).toEqual([0, 0]);
    expect(place([3, 7, 9], '3, ::-1, 1::2', [5, 10, 20])).toEqual([2, 4]);
  });

  it('is null for what is not selected', () => {
    expect(place([199, 13], '200:, 13:', [256, 1024])).toBe(null);
    expect(place([200, 13], ':, :13', [256, 1024])).toBe(null);
    expect(place([2, 7, 9], '3, :, :', [5, 10, 20])).toBe(null);
    expect(place([3, 7, 9], '3, :, ::2', [5, 10, 20])).toBe(null);
  });
});
