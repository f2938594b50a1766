/** What is wrong with tensors, and numbers in cells. */
import { describe, expect, it } from 'vitest';
import { cellText, healthOf } from '../../viewer/parts/measures.js';
import { partNumber, partOf, posterOf } from '../../viewer/poster.js';
import type { LayerStatistics } from '../../viewer/worker/layers.js';

describe('the health of a model', () => {
  const names = [
    'norm.weight',
    ...[0, 1, 2, 3].map((at) => `layers.0.mlp.experts.${at}.up.weight`),
  ];
  const part = Uint8Array.from(names, (name) => partNumber(partOf(name, [2, 2])));
  const poster = posterOf({ names, shapes: names.map(() => '2 × 2'), part });
  const column = (...values: number[]) => Float64Array.from(values);
  const none = column(0, 0, 0, 0, 0);
  const statistics = (changes: Partial<LayerStatistics>): LayerStatistics => ({
    norm: column(1, 1, 1, 1, 1),
    spread: column(1, 1, 1, 1, 1),
    outliers: column(4, 4, 4, 4, 4),
    zeros: none,
    broken: none,
    brokenAt: new Map(),
    constant: column(...Array(5).fill(Number.NaN)),
    zeroRows: none,
    ...changes,
  });
  const fine = { broken: [], constant: [], outliers: [], zeroRows: [], unusual: [] };

  it('is fine without anything wrong, and where nothing is known', () => {
    expect(healthOf(statistics({}), poster)).toEqual(fine);
    const unknown = column(...Array(5).fill(Number.NaN));
    const nothing = { norm: unknown, outliers: unknown, broken: unknown, zeroRows: unknown };
    expect(healthOf(statistics(nothing), poster)).toEqual(fine);
  });

  it('names tensors by what is wrong', () => {
    const found = healthOf(
      statistics({
        broken: column(0, 2, 0, 0, 0),
        constant: column(0, Number.NaN, Number.NaN, Number.NaN, Number.NaN),
        outliers: column(0, 20, 20.1, 0, 0),
        zeroRows: column(0, 0, 0, 3, 0),
        norm: column(9, 1, 1.2, 0.9, 1.7),
      }),
      poster,
    );
    expect(found).toEqual({
      broken: [1],
      constant: [0],
      outliers: [2],
      zeroRows: [3],
      unusual: [4],
    });
  });
});

it('numbers in cells are short', () => {
  expect([0, 0.1424, -0.06, 1, 12.34, 1234.5, 1.2e6, 1e-7, Number.NaN].map(cellText)).toEqual([
    '0',
    '.142',
    '−.0600',
    '1.00',
    '12.3',
    '1235',
    '1.2e6',
    '1.0e−7',
    'NaN',
  ]);
});
