/** Axes of the viewer's plots: limits, and marks. */
import { describe, expect, it } from 'vitest';
import { linearScale, lineLimits, needsLog } from '../../viewer/parts/scale.js';

const labels = (min: number, max: number, count?: number) =>
  linearScale(min, max, count).ticks.map(({ label }) => label);

describe('a linear axis', () => {
  it('has at least three marks, at round values', () => {
    expect(labels(0, 96, 4)).toEqual(['0', '20', '40', '60', '80']);
    expect(labels(0, 768, 4)).toEqual(['0', '200', '400', '600']);
    expect(labels(0.5, 1.5, 7)).toEqual(['0.6', '0.8', '1', '1.2', '1.4']);
    expect(labels(0.016, 0.024, 4)).toEqual(['0.016', '0.018', '0.02', '0.022', '0.024']);
    for (let max = 1; max < 1000; max++) {
      for (const count of [4, 5, 7]) {
        const { length } = labels(-max / 7, max, count);
        expect(length).toBeGreaterThanOrEqual(3);
        expect(length).toBeLessThanOrEqual(10);
      }
    }
  });
});

describe('the axis of lines', () => {
  it('spans at least 20 % of the median on either side', () => {
    // A change of 0.25 % on each side.
    expect(lineLimits([0.01995, 0.02, 0.02005])).toEqual([0.016, 0.024]);
    expect(lineLimits([1, 2, 10])).toEqual([1, 10]);
    expect(lineLimits([-5, -5.1, Number.NaN])).toEqual([-6, -4]);
  });

  it('exists without values', () => {
    expect(lineLimits([Number.NaN])).toEqual([0, 1]);
  });

  it('is one of powers where the least would be as good as 0', () => {
    expect(needsLog([0.01, 1])).toBe(true);
    expect(needsLog([0.1, 1, Number.NaN])).toBe(false);
    expect(needsLog([0, 1])).toBe(false);
    expect(needsLog([])).toBe(false);
  });
});
