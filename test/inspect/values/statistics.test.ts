/** Statistics and histograms: against plain sums, by dtype, over any windows. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { histogram, statistics } from '../../support/api.js';

const doubles = fc.array(fc.double(), { maxLength: 40 });

describe('statistics', () => {
  it('are those of all values, however they are cut into windows', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(doubles, { maxLength: 5 }), async (windows) => {
        const all = windows.flat();
        const finite = all.filter(Number.isFinite);
        const found = await statistics(windows, 'F64');
        expect(found).toMatchObject({
          elements: all.length,
          nan: all.filter(Number.isNaN).length,
          infinite: all.filter((value) => Math.abs(value) === Number.POSITIVE_INFINITY).length,
          zero: all.filter((value) => value === 0).length,
          subnormal: all.filter((value) => value !== 0 && Math.abs(value) < 2 ** -1022).length,
        });
        if (finite.length === 0)
          expect(found).toMatchObject({ min: null, max: null, mean: null, std: null });
        else
          expect([found.min, found.max]).toEqual(
            [Math.min(...finite) + 0, Math.max(...finite) + 0].map((value) =>
              expect.closeTo(value, 10),
            ),
          );
      }),
    );
  });

  it('have the mean and the deviation of the population', async () => {
    const windows = [Float32Array.of(1, 2), Float32Array.of(3, 4, Number.NaN)];
    expect(await statistics(windows, 'F32')).toMatchObject({
      mean: 2.5,
      std: expect.closeTo(Math.sqrt(1.25), 12),
    });
    const far = [Float64Array.of(1e9, 1e9 + 1), Float64Array.of(1e9 + 2)];
    expect(await statistics(far, 'F64')).toMatchObject({
      std: expect.closeTo(Math.sqrt(2 / 3), 6),
    });
  });

  it.each([
    ['a path', 'model.safetensors'],
    ['an array of numbers', Float32Array.of(1)],
    ['a checkpoint', new Map([['w', {}]])],
    ['a tensor', { shape: [1], slice: () => {} }],
    ['nothing', undefined],
  ])('refuse %s, and say what windows are', async (_, windows) => {
    const error = expect.objectContaining({
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringContaining(
        'windows must be arrays of numbers, such as tensorValues(tensor), but is ',
      ),
    });
    await expect(statistics(windows as never, 'F32')).rejects.toThrow(error);
    await expect(histogram(windows as never, { min: 0, max: 1 }, 2)).rejects.toThrow(error);
  });

  it.each([
    ['F32', 2 ** -126],
    ['BF16', 2 ** -126],
    ['F16', 2 ** -14],
    ['F8_E4M3', 2 ** -6],
    ['F8_E5M2', 2 ** -14],
    ['F8_E4M3FNUZ', 2 ** -7],
    ['F8_E5M2FNUZ', 2 ** -15],
    ['F6_E2M3', 1],
    ['F6_E3M2', 2 ** -2],
    ['F4', 1],
  ] as const)('count the subnormal values of %s', async (dtype, least) => {
    const values = [least, least / 2, -least / 2, 0, -0, -least];
    expect(await statistics([values], dtype)).toMatchObject({ subnormal: 2, zero: 2 });
  });

  it('count none of dtypes without them', async () => {
    expect(await statistics([[0, 1, 2 ** -127]], 'F8_E8M0')).toMatchObject({ subnormal: 0 });
  });
});

describe('a histogram', () => {
  it('counts every finite value once', async () => {
    await fc.assert(
      fc.asyncProperty(doubles, fc.integer({ min: 1, max: 30 }), async (values, bins) => {
        const stats = await statistics([values], 'F64');
        const found = await histogram([values], stats, bins);
        const count = values.filter(Number.isFinite).length;
        if (count === 0) expect(found).toBeNull();
        else expect(found?.counts.reduce((sum, one) => sum + one, 0)).toBe(count);
      }),
    );
  });

  it.each([
    [
      [0, Number.MIN_VALUE],
      [1, 0, 0, 1],
    ],
    [[0, 1, 2, 3, 4].map((value) => value * Number.MIN_VALUE), [1, 1, 1, 2]],
    [
      [-Number.MAX_VALUE, -1, 1, Number.MAX_VALUE],
      [1, 0, 2, 1],
    ],
  ])('of %j has ranges of equal length', async (values, counts) => {
    const stats = await statistics([values], 'F64');
    expect((await histogram([values], stats, 4))?.counts).toEqual(counts);
  });

  it('without min and max is refused', async () => {
    await expect(histogram([[1]], undefined as never, 2)).rejects.toThrow(
      'range must be an object with min and max, as of statistics, but is undefined',
    );
  });

  it.each([0, 1.5, 65_537])('of %d ranges is refused', async (bins) => {
    await expect(histogram([[1]], { min: 0, max: 1 }, bins)).rejects.toThrow('bins must be');
  });
});
