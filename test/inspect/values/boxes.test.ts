/** Boxes: how an array is cut. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { boxesOf } from '../../../src/inspect/values/boxes.js';

describe('the parts of an array', () => {
  it('follow each other, and none is larger than allowed', () => {
    const shapes = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 });
    fc.assert(
      fc.property(shapes, fc.integer({ min: 1, max: 200 }), (shape, most) => {
        let next = 0;
        for (const box of boxesOf(shape, most)) {
          const sizes = shape.map((length, axis) => {
            const [begin, end] = box[axis] ?? [0, length];
            return { begin, size: end - begin, length };
          });
          const begin = sizes.reduce((sum, one) => sum * one.length + one.begin, 0);
          const count = sizes.reduce((product, { size }) => product * size, 1);
          // Axes behind a cut axis must be whole, and axes before it of length one.
          const cut = sizes.findIndex(({ size }) => size > 1);
          const behind = cut === -1 ? [] : sizes.slice(cut + 1);
          expect(behind.every(({ size, length }) => size === length)).toBe(true);
          expect(begin).toBe(next);
          expect(count).toBeLessThanOrEqual(most);
          next += count;
        }
        expect(next).toBe(shape.reduce((product, length) => product * length, 1));
      }),
    );
  });
});
