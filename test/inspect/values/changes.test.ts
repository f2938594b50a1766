/** Directions of the changes of two tensors since a base. */
import { describe, expect, it } from 'vitest';
import { compareTensors } from '../../../src/inspect/values/difference.js';
import { parse, serialize, type Tensor } from '../../support/api.js';

function tensorOf(data: Float32Array | Float64Array): Tensor {
  const dtype = data instanceof Float64Array ? 'F64' : 'F32';
  return parse(serialize({ t: { dtype, shape: [data.length], data } })).getTensor('t');
}

async function cosine(
  base: readonly number[],
  a: readonly number[],
  b: readonly number[],
): Promise<number | null | undefined> {
  const [from, x, y] = [base, a, b].map((one) => tensorOf(Float64Array.from(one)));
  const options = { base: from as Tensor };
  return (await compareTensors(x as Tensor, y as Tensor, options)).cosineOfChanges;
}

const { NaN: NAN, POSITIVE_INFINITY: INFINITE } = Number;

describe('the cosine of two changes', () => {
  it.each<[base: number[], a: number[], b: number[], expected: number | null]>([
    [[1, 2], [2, 4], [4, 8], 1],
    [[1, 2], [2, 4], [0, 0], -1],
    [[1, 1], [2, 1], [1, 3], 0],
    [[0, 0], [1, 0], [1, 1], Math.SQRT1_2],
    [[1, 2], [1, 2], [3, 4], null],
    [[1, 2], [1, 2], [1, 2], null],
    [[], [], [], null],
    [[NAN, 1, 1], [1, 2, 1], [2, 1, INFINITE], null],
    [[1, 1, 1, 1], [2, NAN, 1, 1], [3, 5, INFINITE, 1], 1],
    [[INFINITE], [INFINITE], [1], null],
    [[0, 0], [1e200, 1], [1, 1], Math.SQRT1_2],
    [[0, 0], [1e-200, 0], [1e-200, 1e-200], Math.SQRT1_2],
    // The change overflows.
    [[-1e308, 0], [1e308, 1], [1e308, -1], 1],
    [[-1e308, 1], [1e308, 2], [0, 0], 1],
    [[5e-324, 0], [0, 0], [1e-323, 0], -1],
  ])('from %j of %j and %j', async (base, a, b, expected) => {
    const found = await cosine(base, a, b);
    expect(found).toEqual(expected === null ? null : expect.closeTo(expected, 15));
  });

  it('is exact for integers that are equal as doubles', async () => {
    const integers = (...offsets: bigint[]): Tensor => {
      const data = BigInt64Array.from(offsets, (offset) => 2n ** 60n + offset);
      return parse(serialize({ t: { dtype: 'I64', shape: [data.length], data } })).getTensor('t');
    };
    const options = { base: integers(0n, 0n) };
    const found = await compareTensors(integers(1n, 0n), integers(3n, 3n), options);
    expect(found.cosineOfChanges).toBeCloseTo(Math.SQRT1_2, 15);
  });

  it('of values that only one side has changed is null, in blocks of zeros, too', async () => {
    const zeros = tensorOf(new Float32Array(100_000));
    const changed = new Float32Array(100_000);
    changed[99_999] = 1;
    const options = { base: zeros };
    expect(await compareTensors(zeros, tensorOf(changed), options)).toMatchObject({
      ...{ differing: 1, cosineOfChanges: null },
    });
    expect(await compareTensors(tensorOf(changed), tensorOf(changed), options)).toMatchObject({
      cosineOfChanges: 1,
    });
  });

  it('is of doubles over all values of a long tensor', async () => {
    const length = 100_003;
    const of = (scale: number): Float32Array =>
      Float32Array.from({ length }, (_, i) => 1000 + scale * Math.sin(i * scale));
    const [base, a, b] = [of(0.5), of(0.7), of(0.9)] as const;
    let [dot, squaresA, squaresB] = [0, 0, 0];
    for (let i = 0; i < length; i++) {
      const [from, x, y] = [base[i] as number, a[i] as number, b[i] as number];
      dot += (x - from) * (y - from);
      squaresA += (x - from) ** 2;
      squaresB += (y - from) ** 2;
    }
    const { cosineOfChanges } = await compareTensors(tensorOf(a), tensorOf(b), {
      base: tensorOf(base),
    });
    expect(cosineOfChanges).toBeCloseTo(dot / Math.sqrt(squaresA * squaresB), 12);
  });

  it('is absent without a base, which must have the same shape', async () => {
    const one = tensorOf(Float32Array.of(1));
    expect(await compareTensors(one, one)).not.toHaveProperty('cosineOfChanges');
    const base = tensorOf(Float32Array.of(1, 2));
    await expect(compareTensors(one, one, { base })).rejects.toMatchObject({
      code: 'ERR_OUT_OF_RANGE',
      message: expect.stringContaining('shape of base'),
    });
    await expect(compareTensors(one, one, { base: 'model' as never })).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    });
  });
});
