/** What DARE draws: the same whatever is read first, spread as its density asks. */
import { describe, expect, it } from 'vitest';
import { seededDraw, threefry } from '../../../src/merge/models/methods/random.js';
import { type Checkpoint, mergeModels } from '../../support/api.js';
import { checkpoint, valuesOf } from '../make-adapter.js';

it.each([
  [
    [0, 0],
    [0, 0],
    [0x6b200159, 0x99ba4efe],
  ],
  [
    [0xffffffff, 0xffffffff],
    [0xffffffff, 0xffffffff],
    [0x1cb996fc, 0xbb002be7],
  ],
  [
    [0x13198a2e, 0x03707344],
    [0x243f6a88, 0x85a308d3],
    [0xc4923a9c, 0x483df7a0],
  ],
] as const)('threefry has the values of Random123', (key, counter, expected) => {
  expect(threefry(key, counter)).toEqual(expected);
});

function drawn(
  seed: number,
  tensor: string,
  model: number,
  density: number,
  count: number,
): Uint8Array {
  const kept = new Uint8Array(count);
  seededDraw(seed, tensor, model, density).fill(0, kept);
  return kept;
}

describe('a draw', () => {
  it.each([0.01, 0.3, 0.5, 0.9])('keeps a share of %d', (density) => {
    const count = 100_000;
    const kept = drawn(1, 'x', 1, density, count).reduce((sum, one) => sum + one, 0);
    expect(Math.abs(kept / count - density)).toBeLessThan(
      5 * Math.sqrt((density * (1 - density)) / count),
    );
  });

  it('depends on seed, tensor and model, and on nothing else', () => {
    const own = drawn(1, 'x', 1, 0.5, 1000);
    for (const other of [
      drawn(2, 'x', 1, 0.5, 1000),
      drawn(1, 'y', 1, 0.5, 1000),
      drawn(1, 'x', 2, 0.5, 1000),
    ]) {
      const equal = own.reduce((sum, one, i) => sum + (one === other[i] ? 1 : 0), 0);
      expect(Math.abs(equal - 500)).toBeLessThan(80);
    }
    const part = new Uint8Array(333);
    seededDraw(1, 'x', 1, 0.5).fill(501, part);
    expect(part).toEqual(own.subarray(501, 834));
  });
});

describe.each(['dare_linear', 'dare_ties'])('%s', (method) => {
  const [rows, columns] = [40, 25];
  const length = rows * columns;
  const base = checkpoint({ x: valuesOf([rows, columns], new Float32Array(length)) });
  const ones = checkpoint({ x: valuesOf([rows, columns], new Float32Array(length).fill(1)) });

  it.each([true, false])('keeps changes by chance, rescale %s', async (rescale) => {
    const merge = async (seed: number): Promise<Checkpoint> => {
      const models = [{ source: ones, weight: 1, density: 0.4 }];
      return (await mergeModels({ method, base, models, rescale, seed } as never)) as Checkpoint;
    };
    const merged = await merge(7);
    const values = merged.getTensor('x').toFloat32();
    const kept = drawn(7, 'x', 1, 0.4, length);
    const count = kept.reduce((sum, one) => sum + one, 0);
    const value = Math.fround(rescale ? length / count : 1);
    expect(values).toEqual(Float32Array.from(kept, (one) => one * value));
    expect(merged.getSlice('x', '7:9').toFloat32()).toEqual(
      values.subarray(7 * columns, 9 * columns),
    );
    expect((await merge(8)).getTensor('x').toFloat32()).not.toEqual(values);
  });
});
