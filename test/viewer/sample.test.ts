/** Samples of tensors: within their limits, within the tensor, and of several places. */
import { describe, expect, it } from 'vitest';
import {
  readingOrder,
  sampleAxes,
  sampleSize,
  selectedElements,
} from '../../viewer/worker/sample.js';

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

describe('the tensors of a sample', () => {
  const names = Array.from({ length: 3 }, (_, layer) => [
    `layers.${layer}.norm.weight`,
    ...Array.from({ length: 40 }, (_, expert) => `layers.${layer}.experts.${expert}.up.weight`),
  ]).flat();

  it('are one of each role in each layer first, and a few of many experts', () => {
    const order = readingOrder(names, false);
    expect(order.slice(0, 6)).toEqual([0, 1, 41, 42, 82, 83]);
    expect(new Set(order).size).toBe(order.length);
    expect(order.length).toBe(3 * (1 + 16));
    const [first] = [order.filter((at) => at > 0 && at <= 40)];
    expect(first).toEqual(Array.from({ length: 16 }, (_, at) => 1 + Math.floor(2.5 * at)));
  });

  it('come first of a whole model, and the others after them', () => {
    const order = readingOrder(names, true);
    expect(order.slice(0, 51)).toEqual(readingOrder(names, false));
    expect([...order].sort((a, b) => a - b)).toEqual([...names.keys()]);
  });
});
