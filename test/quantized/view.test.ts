/** Quantized weights as tensors of a view: options, rows, what is shown of them, and files that change. */
import { truncateSync, writeFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  type Checkpoint,
  dequantized,
  parse,
  SafetensorsError,
  safeOpen,
  select,
  serialize,
  type Tensor,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { Random } from '../support/random.js';
import { type MadeTensor, storedTensors } from './generated-tensors.js';
import { rowCountOf } from './opened-tensors.js';
import { patternsOf } from './rules.js';

const CONFIG = { quantization_config: { quant_method: 'fp8', weight_block_size: [2, 4] } };
const CONFIG_128 = { quantization_config: { quant_method: 'fp8' } };
const CODES = Uint8Array.from({ length: 32 }, (_, i) => 0x38 + (i % 8));

function bytesOfModel(): Uint8Array<ArrayBuffer> {
  return serialize({
    'up.weight': { dtype: 'F8_E4M3', shape: [4, 8], data: CODES },
    'up.weight_scale_inv': { dtype: 'F32', shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) },
    norm: { dtype: 'BF16', shape: [2, 2, 2], data: Uint16Array.from({ length: 8 }, () => 0x3f80) },
    scalar: { dtype: 'F32', shape: [], data: Float32Array.of(7) },
  });
}

const openModel = (): Promise<Checkpoint> => dequantized(parse(bytesOfModel()), { config: CONFIG });

/** The weight; a new object on every call, whose values were not used. */
const openWeight = async (): Promise<Tensor> => (await openModel()).getTensor('up.weight');

describe('rows', () => {
  it('are computed, also of a weight whose values were used', async () => {
    const used = await openWeight();
    const { data } = used;
    for (const tensor of [used, await openWeight()]) {
      expect(tensor.toFloat32({ rows: [1, 3] })).toEqual(data.subarray(8, 24));
      expect(await tensor.toFloat32Async({ rows: [1, 3] })).toEqual(data.subarray(8, 24));
    }
  });

  it('may be none', async () => {
    const tensor = await openWeight();
    expect(tensor.toFloat32({ rows: [2, 2] }).length).toBe(0);
    expect((await tensor.toFloat32Async({ rows: [4, 4] })).length).toBe(0);
    for await (const block of tensor.rowBlocks({ rows: [4, 4] })) expect.fail(`at ${block.row}`);
  });

  it.each([
    [[0], TypeError],
    ['0:2', TypeError],
    [[0, 5], RangeError],
    [[-1, 2], RangeError],
    [[3, 2], RangeError],
    [[0.5, 2], RangeError],
    [['0', 2], TypeError],
  ])('%j are rejected', async (rows, type) => {
    const tensor = await openWeight();
    expect(() => tensor.toFloat32({ rows: rows as never })).toThrow(type);
    await expect(tensor.toFloat32Async({ rows: rows as never })).rejects.toThrow(type);
    expect(() => tensor.rowBlocks({ rows: rows as never })).toThrow(type);
  });

  it('of an empty weight have no values, however many there are', async () => {
    const file = parse(
      serialize({
        'm.weight': { dtype: 'F8_E4M3', shape: [2 ** 50, 0], data: new Uint8Array(0) },
        'm.weight_scale': { dtype: 'F32', shape: [], data: Float32Array.of(1) },
      }),
    );
    const model = await dequantized(file);
    expect(model.info('m.weight')).toMatchObject({ dtype: 'F32', quantization: { scheme: 'fp8' } });
    const tensor = model.getTensor('m.weight');
    expect([tensor.toFloat32().length, tensor.data.length, tensor.byteLength]).toEqual([0, 0, 0]);
    expect((await tensor.toFloat32Async()).length).toBe(0);
    for await (const block of tensor.rowBlocks()) expect.fail(`a block at ${block.row}`);
  });

  it('come in blocks, each at least one row', async () => {
    const tensor = await openWeight();
    const whole = tensor.toFloat32();
    const rows: number[] = [];
    for await (const { row, values } of tensor.rowBlocks({ maxByteLength: 1 })) {
      expect(values).toEqual(whole.subarray(8 * row, 8 * row + 8));
      rows.push(row);
    }
    expect(rows).toEqual([0, 1, 2, 3]);
    const halves = select(await openModel(), { dtype: 'F16' }).getTensor('up.weight');
    for await (const { row, values } of halves.rowBlocks({ maxByteLength: 64, rows: [1, 4] })) {
      expect(values).toEqual(halves.toFloat32().subarray(8 * row, 8 * Math.min(row + 2, 4)));
      rows.push(row);
    }
    expect(rows.slice(4)).toEqual([1, 3]);
  });
});

it('values that are too large for F16 become infinite', async () => {
  const file = parse(
    serialize({
      'm.weight': { dtype: 'F8_E4M3', shape: [1, 3], data: Uint8Array.of(0x38, 0x7e, 0x7f) },
      'm.weight_scale': { dtype: 'F32', shape: [], data: Float32Array.of(1000) },
    }),
  );
  const tensor = select(await dequantized(file), { dtype: 'F16' }).getTensor('m.weight');
  const [one, large, none = 0] = tensor.data as Uint16Array;
  expect([one, large, none & 0x7fff]).toEqual([0x63d0, 0x7c00, 0x7e00]);
});

describe('options', () => {
  it('that are wrong are rejected', async () => {
    const tensor = await openWeight();
    const wrong: (() => unknown)[] = [
      () => tensor.toFloat32({ into: new Float64Array(32) as never }),
      () => tensor.toFloat32({ into: new Float32Array(31) }),
      () => tensor.toFloat32({ row: 1 } as never),
      () => tensor.rowBlocks({ dtype: 'F16' } as never),
      () => tensor.rowBlocks({ maxByteLength: 0 }),
      () => tensor.rowBlocks({ signal: 5 as never }),
    ];
    for (const call of wrong)
      expect(call).toThrow(/^(?:into|the length|unknown option|max|signal)/);
    const wrongAsync: object[] = [
      { into: new Float32Array(31) },
      { into: new Uint8Array(128) },
      { signal: 5 },
      { onProgress: 1 },
      { row: 1 },
    ];
    for (const options of wrongAsync) {
      await expect(tensor.toFloat32Async(options)).rejects.toThrow(
        /^(?:into|the length|signal|onProgress|unknown option)/,
      );
    }
    await expect(dequantized(null as never)).rejects.toThrow(TypeError);
    await expect(dequantized({} as never)).rejects.toThrow(TypeError);
    await expect(dequantized(parse(bytesOfModel()), { conf: 1 } as never)).rejects.toThrow(
      TypeError,
    );
  });

  it('name the array to write to', async () => {
    const tensor = await openWeight();
    const into = new Float32Array(32);
    expect(await tensor.toFloat32Async({ into })).toBe(into);
    expect(into).toEqual(tensor.toFloat32());
    const row = new Float32Array(10).fill(5).subarray(1, 9);
    expect(await tensor.toFloat32Async({ into: row, rows: [3, 4] })).toBe(row);
    expect(row).toEqual(into.subarray(24));
    expect(tensor.toFloat32({ into: row.fill(0), rows: [2, 3] })).toBe(row);
    expect(row).toEqual(into.subarray(16, 24));
    expect([...new Float32Array(row.buffer, 0, 1), new Float32Array(row.buffer)[9]]).toEqual([
      5, 5,
    ]);
  });

  it('have a signal, which is checked before the work and in it', async () => {
    const tensor = await openWeight();
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(tensor.toFloat32Async({ signal })).rejects.toThrow('enough');
    await expect(tensor.rowBlocks({ signal }).next()).rejects.toThrow('enough');
    const model = await openModel();
    await expect(model.readTensors(undefined, { signal })).rejects.toThrow('enough');
    await expect(dequantized(model, { signal })).rejects.toThrow('enough');
  });
});

describe('the view', () => {
  it('is shown as any checkpoint, without values', async () => {
    const model = await openModel();
    const shown = { path: undefined, shards: [''], storage: 'memory', ok: true, size: 3 };
    expect(model.toJSON()).toEqual({ ...shown, metadata: null });
    expect(inspect(model)).toMatch(/^Checkpoint \{.*size: 3/s);
    expect(inspect(model.getTensor('up.weight'))).toMatch(/^Tensor \{\s+name: 'up.weight'/);
    expect(() => structuredClone(model)).toThrow('A Checkpoint belongs to its thread');
    expect(() => model.getTensor('up.wieght')).toThrow('did you mean "up.weight"');
  });

  it('has frozen info', async () => {
    const model = await openModel();
    const { shape, quantization } = model.info('up.weight');
    const { block, storedAs } = quantization ?? {};
    for (const value of [shape, quantization, block, storedAs, ...(await model.tensors())]) {
      expect([typeof value, Object.isFrozen(value)]).toEqual(['object', true]);
    }
  });

  it('computes for every tensor that it returns, and retains none', async () => {
    const model = await openModel();
    const [one, other] = [model.getTensor('up.weight'), model.getTensor('up.weight')];
    expect(one.buffer).toBe(one.buffer);
    expect(other.buffer).not.toBe(one.buffer);
    one.data[0] = 5;
    expect([one.toFloat32()[0], other.toFloat32()[0]]).toEqual([5, 1]);
  });
});

describe('files', () => {
  it('are read by descriptors, too, and at odd addresses', async () => {
    const path = temporaryPath('odd.safetensors');
    const bytes = bytesOfModel();
    writeFileSync(path, bytes);
    const expected = (await openWeight()).toFloat32();
    const odd = new Uint8Array(bytes.length + 1).subarray(1);
    odd.set(bytes);
    for (const file of [safeOpen(path, { storage: 'read' }), parse(odd), safeOpen(path)]) {
      const model = await dequantized(file, { config: CONFIG });
      expect(model.getTensor('up.weight').toFloat32()).toEqual(expected);
    }
  });

  it('that were truncated are errors', async () => {
    const path = temporaryPath('changing.safetensors');
    writeFileSync(path, bytesOfModel());
    const file = safeOpen(path);
    const model = await dequantized(file, { config: CONFIG });
    const tensor = model.getTensor('up.weight');
    truncateSync(path, 40);
    const reads: (() => unknown)[] = [
      () => tensor.toFloat32(),
      () => tensor.toFloat32Async(),
      () => tensor.toFloat32({ rows: [0, 1] }),
      () => tensor.rowBlocks().next(),
      () => tensor.data,
      () => tensor.slice(1).data,
      () => tensor.take([0]),
      () => [...tensor.chunks()],
      () => model.getTensor('up.weight'),
      () => model.readTensors(['up.weight']),
    ];
    for (const read of reads) {
      const error: unknown = await (async () => await read())().catch((reason: unknown) => reason);
      expect(error, read.toString()).toBeInstanceOf(SafetensorsError);
      expect((error as SafetensorsError).code).toBe('SAFETENSORS_FILE_CHANGED');
      expect((error as SafetensorsError).path).toBe(path);
    }
    expect(model.ok).toBe(false);
  });
});

describe('large weights', () => {
  const scales = (shape: readonly number[]): MadeTensor => ({
    dtype: 'F32',
    shape,
    content: 'scales',
  });
  const codes = (dtype: MadeTensor['dtype'], shape: readonly number[]): MadeTensor => ({
    dtype,
    shape,
    content: 'random',
  });

  it.each([
    // More than a window of 16 MiB, with ragged blocks.
    [
      'FP8',
      { 'm.weight': codes('F8_E4M3', [1030, 16500]), 'm.weight_scale_inv': scales([9, 129]) },
      CONFIG_128,
    ],
    [
      'experts',
      { 'm.weight': codes('F8_E4M3', [3, 700, 300]), 'm.weight_scale_inv': scales([3, 6, 3]) },
      CONFIG_128,
    ],
    [
      'GPTQ',
      {
        'm.qweight': codes('I32', [256, 992]),
        'm.qzeros': codes('I32', [16, 124]),
        'm.scales': scales([16, 992]),
      },
      { quantization_config: { quant_method: 'gptq', bits: 4, group_size: 128 } },
    ],
    [
      'AWQ',
      {
        'm.qweight': codes('I32', [2048, 124]),
        'm.qzeros': codes('I32', [16, 124]),
        'm.scales': scales([16, 992]),
      },
      { quantization_config: { quant_method: 'awq', bits: 4, group_size: 128 } },
    ],
    [
      'gpt-oss',
      {
        m_blocks: codes('U8', [2, 3000, 9, 16]),
        m_scales: { dtype: 'U8', shape: [2, 3000, 9], content: 'scales' },
      },
      { quantization_config: { quant_method: 'mxfp4' } },
    ],
  ] satisfies [string, Record<string, MadeTensor>, unknown][])(
    '%s have the same values in one piece and in parts',
    async (_, tensors, config) => {
      const stored = storedTensors({ config, tensors }, 7);
      const entries = Array.from(
        stored,
        ([name, { dtype, shape, bytes }]) => [name, { dtype, shape, data: bytes }] as const,
      );
      const model = await dequantized(parse(serialize(new Map(entries))), { config });
      expect(model.problems).toEqual([]);
      const tensor = model.getTensor(model.keys()[0] as string);
      const whole = patternsOf(tensor.toFloat32());
      const columns = tensor.shape.at(-1) as number;
      const random = new Random(5, columns);
      for (let i = 0; i < 40; i++) {
        const first = random.below(rowCountOf(tensor));
        const rows = [first, Math.min(first + random.from(1, 3), rowCountOf(tensor))] as const;
        const part = whole.subarray(rows[0] * columns, rows[1] * columns);
        expect(patternsOf(tensor.toFloat32({ rows }))).toEqual(part);
      }
      let next = 0;
      for await (const { row, values } of tensor.rowBlocks({ maxByteLength: 3_000_000 })) {
        expect(row).toBe(next);
        const own = whole.subarray(row * columns, row * columns + values.length);
        expect(
          Buffer.compare(Buffer.from(patternsOf(values).buffer), Buffer.from(own.slice().buffer)),
        ).toBe(0);
        next += values.length / columns;
      }
    },
  );
});
