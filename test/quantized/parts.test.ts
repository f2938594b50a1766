/** Parts of logical tensors: slices and rows, as a plain tensor gives them; progress; names that stand for others. */
import { describe, expect, it, vi } from 'vitest';
import {
  dequantized,
  type LogicalTensor,
  parse,
  serialize,
  type Tensor,
  type TransferProgress,
} from '../support/api.js';
import { Random } from '../support/random.js';

const CONFIG = { quantization_config: { quant_method: 'fp8', weight_block_size: [2, 4] } };

/** Of three dimensions, of one, and of two. */
const BYTES = serialize(
  {
    'up.weight': {
      dtype: 'F8_E4M3',
      shape: [6, 8],
      data: Uint8Array.from({ length: 48 }, (_, i) => 0x30 + (i % 16)),
    },
    'up.weight_scale_inv': { dtype: 'F32', shape: [3, 2], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
    cube: {
      dtype: 'I16',
      shape: [3, 4, 5],
      data: Int16Array.from({ length: 60 }, (_, i) => i - 9),
    },
    line: {
      dtype: 'BF16',
      shape: [7],
      data: Uint16Array.from({ length: 7 }, (_, i) => 0x3f80 + i),
    },
  },
  { metadata: { 'tied.weight': 'up.weight', nowhere: 'missing' } },
);

/** A logical tensor, and a plain one of its values. */
async function both(name: string): Promise<[LogicalTensor, Tensor]> {
  const tensor = (await dequantized(parse(BYTES), { config: CONFIG })).getTensor(name);
  const { shape } = tensor;
  const values = serialize({ t: { dtype: 'F32', shape, data: tensor.toFloat32() } });
  return [tensor, parse(values).getTensor('t')];
}

describe.each(['up.weight', 'cube', 'line'])('%s', (name) => {
  it.each(['', '...', '0', '-1', '1:3', '::-1', '..., 1:6:2', '2:2', '..., -3:'])(
    'has the slice %j',
    async (index) => {
      const [tensor, plain] = await both(name);
      const expected = index === '' ? plain.slice() : plain.slice(index);
      const found = index === '' ? await tensor.slice() : await tensor.slice(index);
      expect(found).toMatchObject({ name, dtype: 'F32', shape: expected.shape });
      expect(found.data).toEqual(expected.data);
    },
  );

  it('has any slice of numbers and ranges', async () => {
    const [tensor, plain] = await both(name);
    const random = new Random(29, name.length);
    for (let i = 0; i < 50; i++) {
      const index = tensor.shape.map((length) =>
        random.below(3) === 0
          ? random.below(length)
          : ([random.below(length), random.below(length + 1), random.from(1, 3)] as const),
      );
      const expected = plain.slice(...index);
      const found = await tensor.slice(...index, {});
      expect([found.shape, found.data], index.join(' ')).toEqual([expected.shape, expected.data]);
    }
  });

  it('has rows by position', async () => {
    const [tensor, plain] = await both(name);
    for (const indices of [[], [1], [2, 1, 0], [0, 1, 2, 2, -1], BigInt64Array.of(1n, 2n)]) {
      const [expected, found] = [plain.take(indices), await tensor.take(indices)];
      expect([found.shape, found.data]).toEqual([expected.shape, expected.data]);
    }
  });
});

it('a part that cannot be is refused as of any tensor', async () => {
  const [tensor] = await both('up.weight');
  const code = (value: string) => expect.objectContaining({ code: value, tensor: 'up.weight' });
  await expect(tensor.slice(6)).rejects.toEqual(code('SAFETENSORS_SLICE_OUT_OF_RANGE'));
  await expect(tensor.take([6])).rejects.toEqual(code('SAFETENSORS_SLICE_OUT_OF_RANGE'));
  await expect(tensor.slice(0, 0, 0)).rejects.toEqual(code('SAFETENSORS_TOO_MANY_INDICES'));
  await expect(tensor.take('0' as never)).rejects.toThrow(TypeError);
  await expect(tensor.take([0], { rows: 1 } as never)).rejects.toThrow(TypeError);
  const signal = AbortSignal.abort(new Error('enough'));
  await expect(tensor.slice(0, { signal })).rejects.toThrow('enough');
});

it('progress is told in bytes of values', async () => {
  const [tensor] = await both('up.weight');
  const told: TransferProgress[] = [];
  const onProgress = (progress: TransferProgress): void => void told.push(progress);
  await tensor.toFloat32Async({ onProgress });
  await tensor.cast('BF16', { rows: [1, 3], onProgress });
  expect(told).toEqual([
    { bytes: 192, totalBytes: 192 },
    { bytes: 32, totalBytes: 32 },
  ]);
});

it('progress is told tile by tile, at most ten times a second', async () => {
  const [rows, columns] = [1024, 1024];
  const data = new Uint8Array(rows * columns).fill(0x38);
  const scale = { dtype: 'F32', shape: [], data: Float32Array.of(1) } as const;
  const file = serialize({
    'm.weight': { dtype: 'F8_E4M3', shape: [rows, columns], data },
    'm.weight_scale': scale,
  });
  const tensor = (await dequantized(parse(file))).getTensor('m.weight');
  let now = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 101));
  try {
    for (const [width, read] of [
      [4, (options: object) => tensor.toFloat32Async(options)],
      [2, (options: object) => tensor.cast('F16', options)],
    ] as const) {
      const told: number[] = [];
      const totalBytes = width * rows * columns;
      const onProgress = (progress: TransferProgress): void => {
        expect(progress.totalBytes).toBe(totalBytes);
        told.push(progress.bytes / totalBytes);
      };
      await read({ onProgress });
      // Tiles of 1 MiB of float32.
      expect(told.slice(0, 3)).toEqual([0.25, 0.5, 0.75]);
      expect(told.at(-1)).toBe(1);
      const failing = (): void => {
        throw new Error('enough');
      };
      await expect(read({ onProgress: failing })).rejects.toThrow('enough');
    }
  } finally {
    clock.mockRestore();
  }
});

it('a name that the metadata give for another is that tensor', async () => {
  const model = await dequantized(parse(BYTES), { config: CONFIG });
  expect(model.keys()).not.toContain('tied.weight');
  expect([model.has('tied.weight'), model.has('nowhere')]).toEqual([true, false]);
  expect(model.info('tied.weight')).toEqual(model.info('up.weight'));
  const [tied, kept] = ['tied.weight', 'up.weight'].map((name) => model.getTensor(name));
  expect(tied?.toFloat32()).toEqual(kept?.toFloat32());
  expect(() => model.getTensor('nowhere')).toThrow('nowhere');
});
