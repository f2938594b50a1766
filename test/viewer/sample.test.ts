/** Samples of tensors: within their limits, within the tensor, and of several places. */
import { describe, expect, it } from 'vitest';
import { sampleAxes, sampleSize, selectedElements } from '../../viewer/worker/sample.js';

const SHAPES = [[], [7], [50_257, 768], [1, 1, 1024, 1024], [256, 2048, 7168], [2 ** 24], [3, 5]];

describe.each([true, false])('with requests: %s', (isRequested) => {
  it.each(SHAPES)('a part of %j', (...shape) => {
    for (const tensors of [1, 160, 100_000]) {
      const size = sampleSize(isRequested, tensors);
      const axes = sampleAxes(shape, size);
      const all = shape.reduce((product, one) => product * one, 1);
      const count = selectedElements(axes);
      expect(count).toBeGreaterThanOrEqual(Math.min(all, 2 ** 11));
      if (all <= size.elements) expect(count).toBe(all);
      for (const [at, { start, step, count: taken }] of axes.entries()) {
        expect(start).toBeGreaterThanOrEqual(0);
        expect(start + step * (taken - 1)).toBeLessThan(shape[at] as number);
      }
    }
  });
});

it('rows of one run are next to each other', () => {
  const [rows, columns] = sampleAxes([50_257, 768], { elements: 2 ** 14, runs: 1 });
  expect(rows).toEqual({ start: 25_118, step: 1, count: 21, kept: true });
  expect(columns).toEqual({ start: 0, step: 1, count: 768, kept: true });
});
