/** Which weights are quantized, and how: the traps of each scheme, and what is refused. */
import { describe, expect, it } from 'vitest';
import {
  parse,
  type SafetensorsError,
  type SafetensorsFile,
  serialize,
} from '../../../src/index.js';
import {
  type DequantizedCheckpoint,
  dequantized,
  type LogicalInfo,
} from '../../../src/quantized.js';
import { bytesOf, type Content, type MadeTensor } from '../made-tensors.js';

/** Tensors of a module `m`: dtype, shape, and perhaps what they hold. */
type Tensors = Readonly<
  Record<string, readonly [MadeTensor['dtype'], readonly number[], Content?]>
>;

function fileOf(tensors: Tensors): SafetensorsFile {
  const entries = Object.entries(tensors).map(([name, [dtype, shape, content = 'random']]) => {
    const data = bytesOf({ dtype, shape, content }, 1);
    return [name, { dtype, shape, data }] as const;
  });
  return parse(serialize(new Map(entries)));
}

const open = (tensors: Tensors, config?: unknown): Promise<DequantizedCheckpoint> =>
  dequantized(fileOf(tensors), { config });

async function infoOf(tensors: Tensors, config?: unknown, name = 'm.weight'): Promise<LogicalInfo> {
  const model = await open(tensors, config);
  expect(model.problems).toEqual([]);
  expect(model.keys()).toEqual([name]);
  return model.info(name);
}

/** The code and the message of the only problem, without its beginning. */
async function problemOf(tensors: Tensors, config?: unknown, name = 'm.weight'): Promise<string> {
  const model = await open(tensors, config);
  expect(model.problems.map((problem) => problem.tensor)).toEqual([name]);
  expect(model.has(name)).toBe(false);
  const [problem] = model.problems as [SafetensorsError];
  expect(() => model.getTensor(name)).toThrow(problem);
  expect(() => model.info(name)).toThrow(problem);
  const kind = problem.code.replace('SAFETENSORS_QUANTIZATION_', '');
  return `${kind}: ${problem.message.replace(/^tensor "[^"]*": /, '')}`;
}

const quantization = (fields: object): unknown => ({ quantization_config: fields });
const fp8 = (fields: object = {}): unknown => quantization({ quant_method: 'fp8', ...fields });
const group = (weights: object, more: object = {}): unknown =>
  quantization({
    quant_method: 'compressed-tensors',
    config_groups: { group_0: { targets: ['Linear'], weights } },
    ...more,
  });

describe('block sizes', () => {
  it('come from the configuration, at ragged edges too', async () => {
    // DeepSeek-V3's kv_a_proj_with_mqa: 576 / 5 is 115.2.
    const tensors: Tensors = {
      'm.weight': ['F8_E4M3', [576, 256]],
      'm.weight_scale_inv': ['F32', [5, 2], 'scales'],
    };
    expect((await infoOf(tensors, fp8())).block).toEqual([128, 128]);
    expect((await infoOf(tensors)).block).toEqual([128, 128]);
    // Dividing would give blocks of 96.
    const wrong: Tensors = {
      'm.weight': ['F8_E4M3', [192, 256]],
      'm.weight_scale_inv': ['F32', [2, 2], 'scales'],
    };
    expect((await infoOf(wrong, fp8())).block).toEqual([128, 128]);
  });

  it('are inferred only as powers of two, or whole axes', async () => {
    const of = (shape: number[], scale: number[]): Tensors => ({
      'm.weight': ['F8_E4M3', shape],
      'm.weight_scale': ['F32', scale, 'scales'],
    });
    expect((await infoOf(of([128, 64], [2, 2]))).block).toEqual([64, 32]);
    expect((await infoOf(of([48, 64], [1, 2]))).block).toEqual([48, 32]);
    expect(await problemOf(of([96, 64], [2, 2]))).toContain('is no grid of scales for [96, 64]');
    expect(await problemOf(of([24, 24], [3, 3]))).toContain('is no grid of scales');
    expect(await problemOf(of([576, 256], [5, 2]), fp8({ weight_block_size: [64, 64] }))).toBe(
      'INVALID: "m.weight_scale" of shape [5, 2] is no grid of scales for [576, 256]; expected [9, 4] for ' +
        'blocks of 64 × 64',
    );
  });

  it('of modelopt may lack axes of 1, and those of experts may be ambiguous', async () => {
    const modelopt = quantization({
      quant_method: 'modelopt',
      quant_algo: 'FP8_PB_WO',
      weight_block_size: [128, 128],
    });
    const squeezed: Tensors = {
      'm.weight': ['F8_E4M3', [256, 128]],
      'm.weight_scale': ['F32', [2, 1, 1, 1], 'scales'],
    };
    expect((await infoOf(squeezed, modelopt)).block).toEqual([128, 128]);
    const square: Tensors = {
      'm.weight': ['F8_E4M3', [2, 8, 8]],
      'm.weight_scale': ['F32', [2, 8], 'scales'],
    };
    expect(await problemOf(square)).toContain('may be for rows or for columns');
    const columns: Tensors = {
      'm.weight': ['F8_E4M3', [2, 8, 6]],
      'm.weight_scale': ['F32', [2, 1, 6], 'scales'],
    };
    expect((await infoOf(columns)).block).toEqual([8, 1]);
  });

  it('of a configuration must be positive integers', async () => {
    for (const given of [[0, 128], [128], 'x', [1.5, 2], [1, 2, 3]]) {
      const work = open({ 'm.weight': ['F32', [1]] }, fp8({ weight_block_size: given }));
      await expect(work).rejects.toThrow('weight_block_size must be two positive integers');
    }
  });
});

describe('scales', () => {
  const weight = { 'm.weight': ['F8_E4M3', [4, 4]] } as const;

  it('that are missing are named, unless the module is left alone', async () => {
    const tensors: Tensors = { 'm.weight': ['F8_E4M3', [4, 4]] };
    const missing =
      'INVALID: F8_E4M3 codes without a scale; looked for m.weight_scale_inv, m.weight_scale and the like';
    expect(await problemOf(tensors, fp8())).toBe(missing);
    expect(await problemOf(tensors, fp8({ modules_to_not_convert: ['other', ''] }))).toBe(missing);
    for (const pattern of ['m', 'm.weight'.slice(0, 1)]) {
      const model = await open(tensors, fp8({ modules_to_not_convert: [pattern] }));
      expect(model.info('m.weight').scheme).toBe(null);
    }
    const ignored = group({}, { ignore: ['re:.*m'] });
    expect((await open(tensors, ignored)).info('m.weight').scheme).toBe(null);
  });

  it('are missed without a configuration only where others have some', async () => {
    const alone: Tensors = { 'm.weight': ['F8_E4M3', [4, 4]] };
    expect((await open(alone)).info('m.weight').scheme).toBe(null);
    const model = await open({
      ...alone,
      'n.weight': ['F8_E4M3', [4, 4]],
      'n.weight_scale': ['F32', [], 'scales'],
    });
    expect(model.keys()).toEqual(['n.weight']);
    expect(model.problems.map((problem) => problem.tensor)).toEqual(['m.weight']);
  });

  it('without a weight, or with another one, are refused', async () => {
    expect(await problemOf({ 'm.weight_scale': ['F32', []] }, fp8())).toBe(
      'INVALID: the weight of these scales is missing',
    );
    const both = {
      ...weight,
      'm.weight_scale': ['F32', [], 'scales'],
      'm.scale': ['F32', [], 'scales'],
    } as const;
    expect(await problemOf(both, fp8())).toContain('both "m.weight_scale" and "m.scale" are there');
    const ints = { ...weight, 'm.weight_scale': ['I32', []] } as const;
    expect(await problemOf(ints, fp8())).toContain('to hold floats, found I32');
  });

  it('of activations, keys and values are hidden', async () => {
    const tensors: Tensors = {
      'self_attn.k_proj.weight': ['F8_E4M3', [4, 4]],
      'self_attn.k_proj.weight_scale': ['F32', [], 'scales'],
      'self_attn.k_proj.input_scale': ['F32', []],
      'self_attn.k_proj.k_scale': ['F32', []],
      'self_attn.k_scale': ['F32', []],
    };
    expect((await open(tensors)).keys()).toEqual(['self_attn.k_proj.weight']);
  });
});

describe('packing', () => {
  const packed = (bits: number, columns: number, words: number): Tensors => ({
    'm.weight_packed': ['I32', [4, words]],
    'm.weight_scale': ['F32', [4, 1], 'scales'],
    'm.weight_shape': ['I64', [2], [4, columns]],
    ...(bits < 0 ? { 'm.weight_zero_point': ['I32', [3, 1]] as const } : {}),
  });
  const channel = (bits: number): unknown => group({ num_bits: bits, strategy: 'channel' });

  it('of compressed-tensors is told by the number of words, or refused', async () => {
    expect((await infoOf(packed(3, 101, 10), channel(3))).bits).toBe(3);
    expect((await infoOf(packed(3, 101, 11), channel(3))).bits).toBe(3);
    expect(await problemOf(packed(3, 70, 7), channel(3))).toContain('more than one packing fits');
    // One word has both: the same bits.
    expect((await infoOf(packed(3, 10, 1), channel(3))).shape).toEqual([4, 10]);
    expect(await problemOf(packed(4, 64, 9), channel(4))).toContain('no packing fits');
    expect((await infoOf(packed(4, 64, 8))).bits).toBe(4);
  });

  it('needs zero points in the same packing', async () => {
    expect(await problemOf(packed(-4, 64, 8), channel(4))).toContain(
      'to be I32 of shape [1, 1], found I32 of shape [3, 1]',
    );
  });

  it('of MLX needs the configuration', async () => {
    const tensors: Tensors = {
      'm.weight': ['U32', [4, 8]],
      'm.scales': ['F16', [4, 1], 'scales'],
      'm.biases': ['F16', [4, 1], 'scales'],
    };
    const mlx = (fields: object): unknown => ({ quantization: fields });
    expect((await infoOf(tensors, mlx({ bits: 4, group_size: 64 }))).shape).toEqual([4, 64]);
    expect((await infoOf(tensors, mlx({ bits: 8, group_size: 32 }))).shape).toEqual([4, 32]);
    const own = mlx({ bits: 8, group_size: 32, m: { bits: 2, group_size: 128 } });
    expect((await infoOf(tensors, own)).shape).toEqual([4, 128]);
    expect(await problemOf(tensors)).toContain('must have bits and group_size');
    expect(await problemOf(tensors, mlx({ bits: 4, group_size: 32 }))).toContain(
      'need [4, 2], and biases alike',
    );
    expect(await problemOf(tensors, mlx({ bits: 7, group_size: 32 }))).toContain(
      "UNSUPPORTED: MLX's codes of 7 bits",
    );
  });
});

describe('GPTQ and AWQ', () => {
  const gptq: Tensors = {
    'm.qweight': ['I32', [8, 32]],
    'm.qzeros': ['I32', [1, 4], Array<number>(4).fill(0x77777777)],
    'm.scales': ['F16', [1, 32], 'scales'],
    'm.g_idx': ['I32', [64], { below: 1 }],
  };
  const awq: Tensors = {
    'm.qweight': ['I32', [64, 4]],
    'm.qzeros': ['I32', [1, 4]],
    'm.scales': ['F16', [1, 32], 'scales'],
  };
  const config = (fields: object): unknown => quantization({ bits: 4, group_size: 64, ...fields });

  it('are told apart by shapes, and must be what the configuration says', async () => {
    expect((await infoOf(gptq, config({ quant_method: 'gptq' }))).scheme).toBe('gptq');
    expect((await infoOf(awq, config({ quant_method: 'awq' }))).scheme).toBe('awq');
    expect(
      (await infoOf(awq, config({ quant_method: 'gptq', checkpoint_format: 'gemm' }))).scheme,
    ).toBe('awq');
    expect(await problemOf(gptq, config({ quant_method: 'awq' }))).toContain('looks like GPTQ');
    expect(await problemOf(awq, config({ quant_method: 'gptq' }))).toContain('looks like AWQ');
  });

  it('of other versions are refused by name', async () => {
    expect(await problemOf(awq, config({ quant_method: 'awq', version: 'gemv' }))).toBe(
      'UNSUPPORTED: AWQ of version "gemv" is not read',
    );
    expect(
      await problemOf(gptq, config({ quant_method: 'gptq', checkpoint_format: 'marlin' })),
    ).toBe('UNSUPPORTED: GPTQ of the format "marlin" is not read');
  });

  it('has bits that the tensors tell where modules differ', async () => {
    const eight = { ...gptq, 'm.qweight': ['I32', [16, 32]], 'm.qzeros': ['I32', [1, 8]] } as const;
    expect(await problemOf(eight, config({ quant_method: 'gptq' }))).toContain('is not of 4 bits');
    const dynamic = config({ quant_method: 'gptq', dynamic: { '+:m': { bits: 8 } } });
    expect((await infoOf(eight, dynamic)).bits).toBe(8);
  });

  /** The first value, as a multiple of its scale: the code minus the zero point. */
  async function firstOf(zero: number, fields: object | null): Promise<number> {
    const tensors: Tensors = {
      ...gptq,
      'm.qweight': ['I32', [8, 32], Array<number>(256).fill(0x55555555)],
      'm.qzeros': ['I32', [1, 4], Array<number>(4).fill(zero)],
    };
    const model = await open(
      tensors,
      fields === null ? undefined : config({ quant_method: 'gptq', ...fields }),
    );
    const [scale] = fileOf(tensors).getTensor('m.scales').toFloat32();
    return (model.getTensor('m.weight').toFloat32()[0] as number) / (scale as number);
  }

  it('stores zero points one less, or as they are', async () => {
    expect(await firstOf(0x77777777, {})).toBe(5 - 8);
    expect(await firstOf(0x77777777, { checkpoint_format: 'gptq_v2' })).toBe(5 - 7);
    // Labelled as version 1, stored as they are.
    expect(await firstOf(0x88888888 | 0, { sym: true })).toBe(5 - 8);
    expect(await firstOf(0x88888888 | 0, {})).toBe(5 - 9);
    // Added to whole words, with a carry.
    expect(await firstOf(0x3f, {})).toBe(5 - 0);
    expect(await firstOf(0x77777777, null)).toBe(5 - 8);
    expect(await firstOf(0x88888888 | 0, null)).toBe(5 - 8);
    await expect(firstOf(0x66666666, null)).rejects.toThrow('as they are or one less');
  });
});

describe('other methods', () => {
  it.each([
    [
      'hqq',
      { 'm.W_q': ['U8', [4, 4]], 'm.scale': ['F16', [4, 1]], 'm.zero': ['F16', [4, 1]] },
      'm.W_q',
    ],
    [
      'aqlm',
      {
        'm.codes': ['I8', [4, 4, 1]],
        'm.codebooks': ['F16', [1, 256, 1, 8]],
        'm.scales': ['F16', [4, 1]],
      },
      'm.codes',
    ],
    [
      'quanto',
      { 'm.weight._data': ['I8', [4, 4]], 'm.weight._scale': ['F16', [4, 1]] },
      'm.weight._data',
    ],
    ['eetq', { 'm.qweight': ['I8', [4, 4]], 'm.scales': ['F16', [4]] }, 'm.weight'],
    ['made-up', { 'm.weight': ['I8', [4, 4]], 'm.weight_scale': ['F32', [4, 1]] }, 'm.weight'],
    ['made-up', { 'm.weight': ['U8', [4, 4]] }, 'm.weight'],
  ] satisfies [string, Tensors, string][])(
    '%s is refused by name',
    async (method, tensors, name) => {
      const all: Tensors = { ...tensors, norm: ['BF16', [4]] };
      const model = await open(all, quantization({ quant_method: method }));
      expect(model.keys()).toEqual(['norm']);
      expect(model.problems.map(({ tensor, code }) => [tensor, code])).toEqual([
        [name, 'SAFETENSORS_QUANTIZATION_UNSUPPORTED'],
      ]);
      expect(model.problems[0]?.message).toContain(method);
    },
  );

  it('of modelopt with scales before the product are refused', async () => {
    const tensors: Tensors = {
      'm.weight': ['U8', [4, 16]],
      'm.weight_scale': ['F8_E4M3', [4, 2]],
      'm.weight_scale_2': ['F32', []],
      'm.pre_quant_scale': ['BF16', [32]],
    };
    expect(await problemOf(tensors)).toBe(
      'UNSUPPORTED: modelopt\'s "m.pre_quant_scale" is not applied',
    );
  });

  it('leave integers alone that are no weights, and unquantized checkpoints', async () => {
    const tensors: Tensors = {
      position_ids: ['I64', [4]],
      mask: ['U8', [4, 4]],
      'n.weight': ['F16', [4]],
    };
    const model = await open(tensors, fp8());
    expect(model.keys()).toEqual(['mask', 'n.weight', 'position_ids']);
    expect((await open(tensors)).problems).toEqual([]);
  });
});

describe('configurations', () => {
  it('with patterns that take too long are refused', async () => {
    const names = Array.from({ length: 20 }, (_, i) => `${'m'.repeat(1000)}${i}.weight`);
    const tensors: Tensors = Object.fromEntries(
      names.map((name) => [name, ['U8', [1, 1]] as const]),
    );
    const ignore = Array.from({ length: 30_000 }, (_, i) => `*a*b*${i}`);
    const model = await open(tensors, group({}, { ignore }));
    expect(model.keys()).toEqual([]);
    expect(model.problems.at(-1)?.message).toContain('take too long to match');
  });

  it('prefer exact names to patterns, and these to classes', async () => {
    const tensors: Tensors = {
      'm.weight': ['I8', [4, 64]],
      'm.weight_scale': ['F32', [4, 2], 'scales'],
    };
    const groups = (targets: readonly string[][]): unknown =>
      quantization({
        quant_method: 'compressed-tensors',
        config_groups: Object.fromEntries(
          targets.map((target, i) => [
            `g${i}`,
            { targets: target, weights: { strategy: 'group', group_size: [16, 32][i] } },
          ]),
        ),
      });
    expect((await infoOf(tensors, groups([['Linear'], ['re:.*m']]))).block).toEqual([1, 32]);
    expect((await infoOf(tensors, groups([['re:.*m'], ['m']]))).block).toEqual([1, 32]);
    expect(await problemOf(tensors, groups([['Linear'], ['n']]))).toContain(
      'does not fit groups of 16 columns',
    );
  });

  it('may be anything', async () => {
    for (const config of [
      null,
      1,
      [],
      { quantization_config: 5 },
      { quantization_config: [] },
      { text_config: 'x' },
    ]) {
      expect((await open({ 'm.weight': ['F32', [1]] }, config)).method).toBe(null);
    }
    const nested = { text_config: { quantization_config: { quant_method: 'FP8' } } };
    expect((await open({ 'm.weight': ['F32', [1]] }, nested)).method).toBe('fp8');
  });
});
