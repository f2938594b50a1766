/** Statistics by counted bit patterns: equal to those of the values one by one. */
import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import {
  DTYPES,
  type Dtype,
  histogram,
  parse,
  type Statistics,
  serialize,
  statistics,
  type Tensor,
  tensorValues,
  valueNumbers,
} from '../../support/api.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261129);

/** All dtypes with elements of 8 or 16 bits, and F32, whose values are added up in blocks. */
const SHORT = (Object.keys(DTYPES) as Dtype[]).filter((dtype) =>
  [8, 16].includes(DTYPES[dtype].bits),
);

function tensorOf(dtype: Dtype, bytes: Uint8Array): Tensor {
  const width = DTYPES[dtype].bits / 8;
  const shape = [Math.floor(bytes.length / width)];
  const data = bytes.slice(0, (shape[0] as number) * width);
  return parse(
    serialize({
      odd: { dtype: 'U8', shape: [1], data: Uint8Array.of(1) },
      t: { dtype, shape, data: typed(dtype, data) },
    }),
  ).getTensor('t');
}

/** Bytes of more than 2^18 elements of 16 bits, without a pattern in their number. */
function repeated(bytes: Uint8Array): Uint8Array {
  const all = new Uint8Array(bytes.length === 0 ? 0 : 2 ** 19 + 2 * bytes.length);
  for (let at = 0; at < all.length; at++) all[at] = bytes[at % bytes.length] as number;
  return all;
}

function typed(dtype: Dtype, bytes: Uint8Array): never {
  const Data = DTYPES[dtype].data as unknown as new (buffer: ArrayBuffer) => never;
  return new Data(bytes.buffer as ArrayBuffer);
}

function expectAlike(found: Statistics, expected: Statistics): void {
  const { mean, std, ...counted } = expected;
  expect(found).toMatchObject(counted);
  const scale = Math.max(Math.abs(expected.min ?? 0), Math.abs(expected.max ?? 0));
  for (const [one, other] of [
    [found.mean, mean],
    [found.std, std],
  ]) {
    if (other === null) expect(one).toBeNull();
    else expect(Math.abs((one as number) - (other as number))).toBeLessThanOrEqual(1e-9 * scale);
  }
}

describe.each([...SHORT, 'F32'] as Dtype[])('%s', (dtype) => {
  it('has the statistics and the histogram of its values', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 0, maxLength: 400 }),
        fc.integer({ min: 1, max: 9 }),
        fc.boolean(),
        async (bytes, bins, isMany) => {
          // As many elements as are counted, or a few.
          const tensor = tensorOf(dtype, isMany ? repeated(bytes) : bytes);
          const numbers = Array.from(valueNumbers(tensor));
          const found = await statistics(tensorValues(tensor), dtype);
          expectAlike(found, await statistics([numbers], dtype));
          const expected = await histogram([numbers], found, bins);
          // From the counts of the statistics, and counted again.
          expect(await histogram(tensorValues(tensor), found, bins)).toEqual(expected);
          expect(await histogram(tensorValues(tensor), { ...found }, bins)).toEqual(expected);
        },
      ),
      { seed: SEED, numRuns: 12 },
    );
  });
});

describe('windows of a tensor', () => {
  const tensor = (): Tensor => tensorOf('BF16', Uint8Array.of(0, 63, 128, 63, 0, 64));

  it('of which some were read are the rest of its values', async () => {
    const windows = tensorValues(tensor());
    await windows.next();
    expect(await statistics(windows, 'BF16')).toMatchObject({ elements: 0, min: null });
  });

  it('are over after statistics and histograms of them', async () => {
    for (const one of [tensor(), tensorOf('BF16', repeated(Uint8Array.of(1, 2, 3)))]) {
      const windows = tensorValues(one);
      const found = await statistics(windows, 'BF16');
      expect(await statistics(windows, 'BF16')).toMatchObject({ elements: 0 });
      const others = tensorValues(one);
      await histogram(others, found, 2);
      expect(await statistics(others, 'BF16')).toMatchObject({ elements: 0 });
    }
  });

  it('report progress and end with the signal', async () => {
    const onProgress = vi.fn();
    await statistics(tensorValues(tensor(), { onProgress }), 'BF16');
    expect(onProgress).toHaveBeenLastCalledWith({ bytes: 6, totalBytes: 6 });
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(statistics(tensorValues(tensor(), { signal }), 'BF16')).rejects.toThrow('enough');
  });

  it('of nothing that has values are refused', async () => {
    await expect(statistics(tensorValues('w' as never), 'BF16')).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
    });
  });

  it('counts values within the range alone', async () => {
    for (const values of [[[-9, 0, 1, 2, 3, 9]], [Float32Array.of(-9, 0, 1, 2, 3, 9)]]) {
      expect((await histogram(values, { min: 0, max: 3 }, 3))?.counts).toEqual([1, 1, 2]);
    }
  });
});
