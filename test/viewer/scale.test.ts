/** Axes of the viewer's plots: limits, marks, and which lines are shown at first. */
import { describe, expect, it } from 'vitest';
import { constantRows, layerTable } from '../../viewer/layers.js';
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
    expect(lineLimits([0.01995, 0.02, 0.02005], false)).toEqual([0.016, 0.024]);
    expect(lineLimits([1, 2, 10], false)).toEqual([1, 10]);
    expect(lineLimits([-5, -5.1, Number.NaN], false)).toEqual([-6, -4]);
  });

  it('begins at 0 for shares, and exists without values', () => {
    expect(lineLimits([0.5, 0.51], true)).toEqual([0, 0.51]);
    expect(lineLimits([0, 0], true)).toEqual([0, 1]);
    expect(lineLimits([Number.NaN], false)).toEqual([0, 1]);
  });

  it('is one of powers where the least would be as good as 0', () => {
    expect(needsLog([0.01, 1])).toBe(true);
    expect(needsLog([0.1, 1, Number.NaN])).toBe(false);
    expect(needsLog([0, 1])).toBe(false);
    expect(needsLog([])).toBe(false);
  });
});

describe('rows of layers', () => {
  it('are constant if no statistic differs between layers', () => {
    const table = layerTable(['h.0.mask', 'h.1.mask', 'h.0.w', 'h.1.w', 'h.0.once']);
    const norm = Float64Array.of(0.7, 0.7, 1, 1, 3);
    const spread = Float64Array.of(0.5, 0.5, 0.1, 0.2, 1);
    expect(table.roles).toEqual(['h.*.mask', 'h.*.w', 'h.*.once']);
    expect([...constantRows(table, [norm, spread])]).toEqual([0]);
    expect([...constantRows(table, [norm])]).toEqual([0, 1]);
  });
});
