/** Parts of quantized weights, local and remote: slices and rows as a stored tensor has them; progress; aliases. */
import { describe, expect, it, vi } from 'vitest';
import {
  type AnyCheckpoint,
  dequantized,
  openRemote,
  parse,
  type SliceIndex,
  serialize,
  type Tensor,
  type TransferProgress,
} from '../support/api.js';
import { Random } from '../support/random.js';

const CONFIG = { quantization_config: { quant_method: 'fp8', weight_block_size: [2, 4] } };

const codes = (length: number): Uint8Array =>
  Uint8Array.from({ length }, (_, i) => 0x30 + (i % 16));

/** A weight of two dimensions, one of three, and a tensor that is no weight. */
const BYTES = serialize(
  {
    'up.weight': { dtype: 'F8_E4M3', shape: [6, 8], data: codes(48) },
    'up.weight_scale_inv': { dtype: 'F32', shape: [3, 2], data: Float32Array.of(1, 2, 3, 4, 5, 6) },
    'experts.weight': { dtype: 'F8_E4M3', shape: [3, 4, 5], data: codes(60) },
    'experts.weight_scale_inv': {
      dtype: 'F32',
      shape: [3, 2, 2],
      data: Float32Array.from({ length: 12 }, (_, i) => i + 1),
    },
    cube: {
      dtype: 'I16',
      shape: [3, 4, 5],
      data: Int16Array.from({ length: 60 }, (_, i) => i - 9),
    },
  },
  { metadata: { 'tied.weight': 'up.weight', nowhere: 'missing' } },
);

const PLACES: Readonly<Record<string, () => Promise<AnyCheckpoint>>> = {
  local: async () => dequantized(parse(BYTES), { config: CONFIG }),
  remote: async () => dequantized(await openRemote(new Blob([BYTES])), { config: CONFIG }),
};

/** A stored tensor with the values of a weight. */
async function storedOf(name: string): Promise<Tensor> {
  const tensor = (await dequantized(parse(BYTES), { config: CONFIG })).getTensor(name);
  const values = serialize({
    [name]: { dtype: 'F32', shape: tensor.shape, data: tensor.toFloat32() },
  });
  return parse(values).getTensor(name);
}

describe.each(Object.entries(PLACES))('%s', (_, open) => {
  describe.each(['up.weight', 'experts.weight'])('%s', (name) => {
    it.each(['', '...', '0', '-1', '1:3', '::-1', '..., 1:6:2', '2:2', '..., -3:'])(
      'has the slice %j',
      async (text) => {
        const [model, stored] = [await open(), await storedOf(name)];
        const index = text === '' ? [] : [text];
        const expected = stored.slice(...(index as [string]));
        const found = [
          await model.getSlice(name, ...(index as [string])),
          (await model.getTensor(name)).slice(...(index as [string])),
        ];
        for (const part of found) {
          expect(part).toMatchObject({ name, dtype: 'F32', shape: expected.shape });
          expect(part.data).toEqual(expected.data);
        }
      },
    );

    it('has any slice of numbers and ranges', async () => {
      const [model, stored] = [await open(), await storedOf(name)];
      const random = new Random(29, name.length);
      for (let i = 0; i < 50; i++) {
        const index: SliceIndex[] = stored.shape.map((length) =>
          random.below(3) === 0
            ? random.below(length)
            : ([random.below(length), random.below(length + 1), random.from(1, 3)] as const),
        );
        const expected = stored.slice(...index);
        const tensor = await model.getTensor(name);
        for (const found of [await model.getSlice(name, ...index), tensor.slice(...index)]) {
          const about = JSON.stringify(index);
          expect([found.shape, found.data], about).toEqual([expected.shape, expected.data]);
        }
      }
    });

    it('has rows by position', async () => {
      const [model, stored] = [await open(), await storedOf(name)];
      for (const indices of [[], [1], [2, 1, 0], [0, 1, 2, 2, -1], BigInt64Array.of(1n, 2n)]) {
        const tensor = await model.getTensor(name);
        const expected = stored.take(indices);
        for (const found of [tensor.take(indices), await tensor.takeAsync(indices)]) {
          expect([found.shape, found.data]).toEqual([expected.shape, expected.data]);
        }
        expect(tensor.takeFloat32(indices)).toEqual(expected.toFloat32());
      }
    });

    it('has its values by every member that returns bytes', async () => {
      const [model, stored] = [await open(), await storedOf(name)];
      const fresh = async (): Promise<Tensor> => await model.getTensor(name);
      expect((await fresh()).bytes).toEqual(stored.bytes);
      expect((await fresh()).data).toEqual(stored.data);
      expect((await fresh()).view(Uint32Array)).toEqual(stored.view(Uint32Array));
      expect((await fresh()).copy().bytes).toEqual(stored.bytes);
      expect(new Uint8Array((await fresh()).buffer)).toEqual(stored.bytes);
      expect(Buffer.concat([...(await fresh()).chunks({ maxByteLength: 52 })])).toEqual(
        Buffer.from(stored.bytes),
      );
      expect((await model.readTensors([name])).get(name)?.bytes).toEqual(stored.bytes);
      for await (const [, tensor] of model.stream({ names: [name] })) {
        expect(tensor.bytes).toEqual(stored.bytes);
      }
      const { shape } = stored;
      const worldSize = shape[0] as number;
      for (let rank = 0; rank < worldSize; rank++) {
        const part = await model.getPartition(name, { rank, worldSize });
        expect(part.data).toEqual(stored.slice([rank, rank + 1]).data);
      }
    });
  });

  it('a part that does not exist is rejected as of any tensor', async () => {
    const model = await open();
    const name = 'up.weight';
    const code = (value: string) => expect.objectContaining({ code: value, tensor: name });
    const part = async (...index: SliceIndex[]) => await model.getSlice(name, ...index);
    await expect(part(6)).rejects.toEqual(code('SAFETENSORS_SLICE_OUT_OF_RANGE'));
    await expect(part(0, 0, 0)).rejects.toEqual(code('SAFETENSORS_TOO_MANY_INDICES'));
    const tensor = await model.getTensor(name);
    expect(() => tensor.take([6])).toThrow(code('SAFETENSORS_SLICE_OUT_OF_RANGE'));
    expect(() => tensor.take('0' as never)).toThrow(TypeError);
    expect(() => tensor.take([0], { rows: 1 } as never)).toThrow(TypeError);
  });

  it('a name that the metadata record for another is that weight', async () => {
    const model = await open();
    expect(model.keys()).toEqual(['cube', 'experts.weight', 'up.weight']);
    expect([model.has('tied.weight'), model.has('nowhere')]).toEqual([true, false]);
    expect(await model.info('tied.weight')).toEqual(await model.info('up.weight'));
    const [tied, kept] = [await model.getTensor('tied.weight'), await model.getTensor('up.weight')];
    expect([tied.name, tied.data]).toEqual([kept.name, kept.data]);
    expect((await model.getSlice('tied.weight', 1)).data).toEqual(kept.slice(1).data);
    expect((await model.readTensors(['tied.weight'])).get('tied.weight')?.data).toEqual(kept.data);
    await expect((async () => await model.getTensor('nowhere'))()).rejects.toThrow('nowhere');
  });
});

it('progress is reported in bytes of values', async () => {
  const tensor = (await dequantized(parse(BYTES), { config: CONFIG })).getTensor('up.weight');
  const reports: TransferProgress[] = [];
  const onProgress = (progress: TransferProgress): void => void reports.push(progress);
  await tensor.toFloat32Async({ onProgress });
  await tensor.toFloat32Async({ rows: [1, 3], onProgress });
  const far = await PLACES['remote']?.();
  await far?.readTensors(['up.weight', 'cube'], { onProgress });
  const near = await PLACES['local']?.();
  await near?.readTensors(['up.weight', 'cube'], { onProgress });
  expect(reports).toEqual([
    { bytes: 192, totalBytes: 192 },
    { bytes: 64, totalBytes: 64 },
    { bytes: 312, totalBytes: 312 },
    { bytes: 312, totalBytes: 312 },
  ]);
});

it('progress is reported tile by tile, at most ten times a second', async () => {
  const [rows, columns] = [1024, 1024];
  const data = new Uint8Array(rows * columns).fill(0x38);
  const scale = { dtype: 'F32', shape: [], data: Float32Array.of(1) } as const;
  const bytes = serialize({
    'm.weight': { dtype: 'F8_E4M3', shape: [rows, columns], data },
    'm.weight_scale': scale,
  });
  const tensor = (await dequantized(parse(bytes))).getTensor('m.weight');
  const remote = await dequantized(await openRemote(new Blob([bytes])));
  let now = 0;
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 101));
  try {
    for (const read of [
      (options: object) => tensor.toFloat32Async(options),
      (options: object) => remote.getTensor('m.weight', options),
      (options: object) => remote.getSlice('m.weight', [0, rows], options),
      (options: object) => remote.readTensors(['m.weight'], options),
    ]) {
      const told: number[] = [];
      const totalBytes = 4 * rows * columns;
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
