/** What is wrong with values, in parts of tensors and in windows of any length. */
import { describe, expect, it } from 'vitest';
import { sliceAround, wholeAxis } from '../../viewer/selection.js';
import { countZeroRows, firstBroken } from '../../viewer/worker/health.js';

async function* windows(values: readonly number[], length: number) {
  for (let begin = 0; begin < values.length; begin += length)
    yield Float32Array.from(values.slice(begin, begin + length));
}

describe.each([1, 3, 4, 100])('in windows of %i values', (length) => {
  it('the first value that is not finite has its index in the tensor', async () => {
    const values = [0, 1, 2, 3, 4, Number.NaN, 6, Number.POSITIVE_INFINITY];
    const find = (axes: Parameters<typeof firstBroken>[1]) =>
      firstBroken(windows(values, length), axes);
    expect(await find([2, 4].map(wholeAxis))).toEqual([1, 1]);
    expect(await find([2, 2, 2].map(wholeAxis))).toEqual([1, 0, 1]);
    // A sample: every third row from the second on, and columns from 10 on.
    const rows = { start: 1, step: 3, count: 2, kept: true };
    const columns = { start: 10, step: 1, count: 4, kept: true };
    expect(await find([rows, columns])).toEqual([4, 11]);
    expect(await firstBroken(windows([1, 2], length), [wholeAxis(2)])).toBe(null);
  });

  it('rows of zeros are counted', async () => {
    const values = [0, 0, 0, 0, 1, 0, 0, -0, 0, Number.NaN, 0, 0];
    expect(await countZeroRows(windows(values, length), 3)).toBe(2);
    expect(await countZeroRows(windows(values, length), 12)).toBe(0);
  });
});

it('a slice has the neighbours of an index on all sides', () => {
  expect(sliceAround([3], [100])).toBe(':20');
  expect(sliceAround([40, 95], [100, 100])).toBe('24:57, 79:');
  expect(sliceAround([1, 40, 5], [2, 100, 12])).toBe('1, 24:57, :');
  expect(sliceAround([3, 5], [8, 12])).toBe('');
});
