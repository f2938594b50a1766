/** Differences of values: usual and unusual values and their part of the sums. */
import { describe, expect, it, vi } from 'vitest';
import { compareTensors, type TensorDifference } from '../../../src/inspect/values/difference.js';
import { DTYPES, parse, serialize, type Tensor } from '../../support/api.js';

function tensorOf(values: readonly number[]): Tensor {
  const data = Float32Array.from(values);
  return parse(serialize({ t: { dtype: 'F32', shape: [data.length], data } })).getTensor('t');
}

async function compare(a: readonly number[], b: readonly number[]): Promise<TensorDifference> {
  return await compareTensors(tensorOf(a), tensorOf(b));
}

const { NaN: NAN, POSITIVE_INFINITY: INFINITE } = Number;

describe('the difference of values', () => {
  it.each([
    [
      [1],
      [INFINITE],
      { differing: 1, nonFinite: 1, maxError: INFINITE, relative: null, cosine: null },
    ],
    [
      [INFINITE],
      [INFINITE],
      { differing: 0, nonFinite: 1, maxError: null, relative: null, cosine: null },
    ],
    [
      [INFINITE],
      [-INFINITE],
      { differing: 1, nonFinite: 1, maxError: INFINITE, relative: null, cosine: null },
    ],
    [[NAN], [NAN], { differing: 0, nonFinite: 1, maxError: null, relative: null, cosine: null }],
    [[NAN], [1], { differing: 1, nonFinite: 1, maxError: null, relative: null, cosine: null }],
    [[0], [-0], { differing: 0, nonFinite: 0, maxError: 0, relative: null, cosine: null }],
    [[0], [2], { differing: 1, nonFinite: 0, maxError: 2, relative: null, cosine: null }],
    [[], [], { differing: 0, nonFinite: 0, maxError: null, relative: null, cosine: null }],
  ])('of %j and %j', async (a, b, expected) => {
    expect(await compare(a, b)).toEqual({ elements: a.length, ...expected });
  });

  it('is relative to the first', async () => {
    expect(await compare([3, 4], [3, 4.5])).toMatchObject({ relative: 0.1 });
    expect(await compare([0, 0], [1, 1])).toMatchObject({ relative: null });
    expect(await compare([2, 2], [0, 0])).toMatchObject({ relative: 1 });
  });

  it.each([
    ['at the start', 0],
    ['in the middle', 5000],
    ['at the end', 9999],
  ])('counts usual values beside one NaN %s', async (_, at) => {
    const a = Array.from({ length: 10_000 }, (_, i) => (i === at ? NAN : 3));
    const b = a.map((value, i) => (i % 2 === 0 ? value : 4));
    const usual = a.flatMap((p, i) => (i === at ? [] : [[p, b[i]] as [number, number]]));
    const sum = (of: (p: number, q: number) => number): number =>
      usual.reduce((total, pair) => total + of(...pair), 0);
    expect(await compare(a, b)).toEqual({
      elements: 10_000,
      differing: 5000,
      nonFinite: 1,
      maxError: 1,
      relative: expect.closeTo(Math.sqrt(sum((p, q) => (p - q) ** 2) / sum((p) => p * p)), 12),
      cosine: expect.closeTo(
        sum((p, q) => p * q) / Math.sqrt(sum((p) => p * p) * sum((_, q) => q * q)),
        12,
      ),
    });
  });

  it('is of values, whatever the dtypes', async () => {
    const data = Uint8Array.of(1, 2, 3);
    const bytes = serialize({ t: { dtype: 'U8', shape: [3], data } });
    const integers: Tensor = parse(bytes).getTensor('t');
    expect(await compareTensors(integers, tensorOf([1, 2, 5]))).toMatchObject({
      differing: 1,
      maxError: 2,
    });
  });

  it.each([
    ['BF16', [70_000]],
    ['F16', [7, 10_000]],
    ['F8_E4M3', [3, 40_000]],
    ['F4', [3, 40_000]],
    ['F6_E2M3', [70_000]],
    ['F32', [70_000]],
    ['I64', [70_000]],
  ] as const)('finds one value among many of %s, wherever it is', async (dtype, shape) => {
    const elements = shape.reduce((product, size) => product * size, 1);
    const byteLength = (elements * DTYPES[dtype].bits) / 8;
    const tensor = (bytes: Uint8Array): Tensor =>
      parse(serialize({ t: { dtype, shape, data: bytes } })).getTensor('t');
    const plain = tensor(new Uint8Array(byteLength));
    for (const part of [0, 0.46, 0.47, 0.93, 0.94, 0.999_99]) {
      const bytes = new Uint8Array(byteLength);
      // One: the least significant bits of a value.
      bytes[Math.floor(Math.floor(part * elements) * (byteLength / elements))] = 1;
      const found = await compareTensors(plain, tensor(bytes));
      expect(found).toMatchObject({ elements, differing: 1, relative: null });
    }
  });

  it('lets other events run between blocks, and ends with the signal', async () => {
    const [a, b] = [tensorOf(Array(2 ** 18).fill(1)), tensorOf(Array(2 ** 18).fill(2))];
    let now = 0;
    // Every look at the clock is 10 ms later.
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => (now += 10));
    const controller = new AbortController();
    let turns = 0;
    const next = (): void => {
      turns++;
      if (turns === 5) controller.abort(new Error('enough'));
      else setImmediate(next);
    };
    setImmediate(next);
    try {
      await expect(compareTensors(a, b, { signal: controller.signal })).rejects.toThrow('enough');
    } finally {
      clock.mockRestore();
    }
    expect(turns).toBe(5);
  });

  it('finds integers of 64 bits that are equal as doubles', async () => {
    const big = (values: readonly bigint[]): Tensor => {
      const data = BigInt64Array.from(values);
      return parse(serialize({ t: { dtype: 'I64', shape: [2], data } })).getTensor('t');
    };
    const [a, b] = [big([2n ** 60n, 1n]), big([2n ** 60n + 1n, 1n])];
    expect(await compareTensors(a, b)).toMatchObject({ differing: 1, maxError: 0 });
  });

  it.each(['model.safetensors', undefined, { a: 1 }])('needs tensors, not %j', async (other) => {
    const expected = 'must be a tensor, such as checkpoint.getTensor(name), but is ';
    await expect(compareTensors(other as never, tensorOf([1]))).rejects.toThrow(`a ${expected}`);
    await expect(compareTensors(tensorOf([1]), other as never)).rejects.toThrow(`b ${expected}`);
  });

  it('needs one shape', async () => {
    await expect(compareTensors(tensorOf([1]), tensorOf([1, 2]))).rejects.toThrow(
      'shape of b must be [1], as of a, but is',
    );
  });
});
