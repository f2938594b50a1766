/** Logical tensors as objects: options, rows, tiles, and files that change. */
import { truncateSync, writeFileSync } from 'node:fs';
import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import {
  dequantized,
  type LogicalTensor,
  parse,
  SafetensorsError,
  safeOpen,
  serialize,
} from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';
import { Random } from '../support/random.js';
import { type MadeTensor, storedTensors } from './made-tensors.js';
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

async function openTensor(name = 'up.weight'): Promise<LogicalTensor> {
  return (await dequantized(parse(bytesOfModel()), { config: CONFIG })).getTensor(name);
}

describe('rows', () => {
  it('run along the last dimension', async () => {
    const norm = await openTensor('norm');
    expect([norm.rowCount, norm.elementCount]).toEqual([4, 8]);
    expect(norm.toFloat32({ rows: [1, 3] })).toEqual(new Float32Array(4).fill(1));
    const scalar = await openTensor('scalar');
    expect([scalar.rowCount, scalar.toFloat32()]).toEqual([1, Float32Array.of(7)]);
  });

  it('may be none', async () => {
    const tensor = await openTensor();
    expect(tensor.toFloat32({ rows: [2, 2] }).length).toBe(0);
    const blocks = [];
    for await (const block of tensor.rowBlocks({ rows: [4, 4] })) blocks.push(block);
    expect(blocks).toEqual([]);
  });

  it.each([
    [[0], TypeError],
    ['0:2', TypeError],
    [[0, 5], RangeError],
    [[-1, 2], RangeError],
    [[3, 2], RangeError],
    [[0.5, 2], RangeError],
    [['0', 2], TypeError],
  ])('%j are refused', async (rows, type) => {
    const tensor = await openTensor();
    expect(() => tensor.toFloat32({ rows: rows as never })).toThrow(type);
    await expect(tensor.toFloat32Async({ rows: rows as never })).rejects.toThrow(type);
  });

  it('of an empty tensor are none, however many it has', async () => {
    const file = parse(
      serialize({
        'm.weight': { dtype: 'F8_E4M3', shape: [2 ** 50, 0], data: new Uint8Array(0) },
        'm.weight_scale': { dtype: 'F32', shape: [], data: Float32Array.of(1) },
        plain: { dtype: 'F16', shape: [0, 2 ** 50, 0], data: new Uint16Array(0) },
      }),
    );
    const model = await dequantized(file);
    expect(model.keys()).toEqual(['m.weight', 'plain']);
    for (const name of model.keys()) {
      const tensor = model.getTensor(name);
      expect(tensor.toFloat32().length).toBe(0);
      for await (const block of tensor.rowBlocks()) expect.fail(`a block at ${block.row}`);
    }
  });

  it('come in blocks of any dtype, each at least one row', async () => {
    const tensor = await openTensor();
    const whole = tensor.toFloat32();
    const rows: number[] = [];
    for await (const { row, values, overflows } of tensor.rowBlocks({ maxByteLength: 1 })) {
      expect(values).toEqual(whole.subarray(8 * row, 8 * row + 8));
      expect(overflows).toBe(0);
      rows.push(row);
    }
    expect(rows).toEqual([0, 1, 2, 3]);
    const halves = await tensor.cast('F16');
    for await (const { row, values } of tensor.rowBlocks({ dtype: 'F16', maxByteLength: 32 })) {
      expect(values).toEqual(halves.subarray(8 * row, 8 * row + 16));
    }
  });

  it('count what is too large for F16', async () => {
    const file = parse(
      serialize({
        'm.weight': { dtype: 'F8_E4M3', shape: [1, 3], data: Uint8Array.of(0x38, 0x7e, 0x7f) },
        'm.weight_scale': { dtype: 'F32', shape: [], data: Float32Array.of(1000) },
      }),
    );
    const tensor = (await dequantized(file)).getTensor('m.weight');
    for await (const { values, overflows } of tensor.rowBlocks({ dtype: 'F16' })) {
      expect([values[0], values[1], overflows]).toEqual([0x63d0, 0x7c00, 1]);
    }
  });
});

describe('options', () => {
  it('that are wrong are refused', async () => {
    const tensor = await openTensor();
    const wrong: (() => unknown)[] = [
      () => tensor.toFloat32({ into: new Float64Array(32) as never }),
      () => tensor.toFloat32({ into: new Float32Array(31) }),
      () => tensor.toFloat32({ row: 1 } as never),
      () => tensor.rowBlocks({ dtype: 'F8_E4M3' as never }),
      () => tensor.rowBlocks({ maxByteLength: 0 }),
      () => tensor.rowBlocks({ signal: 5 as never }),
    ];
    for (const call of wrong)
      expect(call).toThrow(/^(?:into|the length|unknown option|dtype|max|signal)/);
    await expect(tensor.cast('F32' as never)).rejects.toThrow(RangeError);
    await expect(tensor.cast('BF16', { into: new Uint8Array(64) as never })).rejects.toThrow(
      TypeError,
    );
    await expect(tensor.cast('BF16', { into: new Uint16Array(3) })).rejects.toThrow(RangeError);
    await expect(dequantized(null as never)).rejects.toThrow(TypeError);
    await expect(dequantized({} as never)).rejects.toThrow(TypeError);
    await expect(dequantized(parse(bytesOfModel()), { conf: 1 } as never)).rejects.toThrow(
      TypeError,
    );
  });

  it('give the array to write to', async () => {
    const tensor = await openTensor();
    const into = new Float32Array(32);
    expect(await tensor.toFloat32Async({ into })).toBe(into);
    expect(into).toEqual(tensor.toFloat32());
    const halves = new Uint16Array(8);
    expect(await tensor.cast('BF16', { into: halves, rows: [3, 4] })).toBe(halves);
    expect(halves).toEqual((await tensor.cast('BF16')).subarray(24));
  });

  it('have a signal, looked at between two steps', async () => {
    const tensor = await openTensor();
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(tensor.toFloat32Async({ signal })).rejects.toThrow('enough');
    await expect(tensor.cast('F16', { signal })).rejects.toThrow('enough');
    await expect(tensor.rowBlocks({ signal }).next()).rejects.toThrow('enough');
  });
});

describe('facts', () => {
  it('are shown without values', async () => {
    const model = await dequantized(parse(bytesOfModel()), { config: CONFIG });
    expect(inspect(model)).toBe("DequantizedCheckpoint { method: 'fp8', size: 3 }");
    expect(JSON.parse(JSON.stringify(model))).toEqual({ method: 'fp8', size: 3 });
    expect(inspect(model.getTensor('scalar'))).toMatch(/^LogicalTensor \{\s+name: 'scalar'/);
    expect(() => structuredClone(model)).toThrow('belongs to its thread');
    expect(() => model.getTensor('up.wieght')).toThrow('did you mean "up.weight"');
    expect(Object.isFrozen(model.info('norm').shape)).toBe(true);
  });
});

describe('files', () => {
  it('are read by descriptors, too, and at odd addresses', async () => {
    const path = temporaryPath('odd.safetensors');
    const bytes = bytesOfModel();
    writeFileSync(path, bytes);
    const expected = (await openTensor()).toFloat32();
    const odd = new Uint8Array(bytes.length + 1).subarray(1);
    odd.set(bytes);
    for (const file of [safeOpen(path, { storage: 'read' }), parse(odd), safeOpen(path)]) {
      const model = await dequantized(file, { config: CONFIG });
      expect(model.getTensor('up.weight').toFloat32()).toEqual(expected);
    }
  });

  it('that were closed or cut short are errors', async () => {
    const path = temporaryPath('changing.safetensors');
    writeFileSync(path, bytesOfModel());
    const file = safeOpen(path);
    const tensor = (await dequantized(file, { config: CONFIG })).getTensor('up.weight');
    truncateSync(path, 40);
    for (const read of [() => tensor.toFloat32(), () => tensor.toFloat32Async()]) {
      const error: unknown = await (async () => read())().catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(SafetensorsError);
      expect((error as SafetensorsError).code).toBe('SAFETENSORS_FILE_CHANGED');
    }
    file.close();
    expect(() => tensor.toFloat32()).toThrow('the file is closed');
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
        const first = random.below(tensor.rowCount);
        const rows = [first, Math.min(first + random.from(1, 3), tensor.rowCount)] as const;
        const part = whole.subarray(rows[0] * columns, rows[1] * columns);
        expect(patternsOf(tensor.toFloat32({ rows }))).toEqual(part);
      }
      let next = 0;
      for await (const { row, values } of tensor.rowBlocks({ maxByteLength: 3_000_000 })) {
        expect(row).toBe(next);
        const own = whole.subarray(row * columns, row * columns + values.length);
        expect(
          Buffer.compare(
            Buffer.from(patternsOf(values as Float32Array).buffer),
            Buffer.from(own.slice().buffer),
          ),
        ).toBe(0);
        next += values.length / columns;
      }
    },
  );
});
