/** RMS of rows and columns at the edges of the heat map. */
import { expect, it } from 'vitest';
import { edgeRms, greatestOf } from '../../viewer/parts/edge-rms.js';
import { sampledPosition } from '../../viewer/selection.js';

it('is that of the finite values of each row and column', () => {
  const values = Float32Array.of(3, Number.NaN, 4, 0, Number.POSITIVE_INFINITY, 4);
  const heat = { values, rows: 2, columns: 3 };
  expect([...edgeRms(heat, 'row')]).toEqual([Math.sqrt(25 / 2), Math.sqrt(16 / 2)]);
  expect([...edgeRms(heat, 'column')]).toEqual([Math.sqrt(9 / 2), Number.NaN, 4]);
});

it('has a greatest, unless no value is finite', () => {
  expect(greatestOf(Float64Array.of(Number.NaN, 1, 3, Number.NaN, 2))).toBe(2);
  expect(greatestOf(Float64Array.of(0, 0))).toBe(0);
  expect(greatestOf(Float64Array.of(Number.NaN))).toBe(null);
  expect(greatestOf(new Float64Array())).toBe(null);
});

it('has positions in the tensor: those of a sample are in the middle of a step', () => {
  const positions = (count: number, begin: number, end: number, step: number) =>
    Array.from({ length: count }, (_, at) => sampledPosition(at, [begin, end], step));
  expect(positions(3, 5, 8, 1)).toEqual([5, 6, 7]);
  expect(positions(3, 10, 22, 4)).toEqual([12, 16, 20]);
  expect(positions(1, 10, 11, 8)).toEqual([10]);
});
