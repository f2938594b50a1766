/** Malformed values in configurations are errors: a default in their place would give other values. */
import { describe, expect, it } from 'vitest';
import { group, infoOf, open, problemOf, quantization, type Tensors } from '../opened-tensors.js';

const gptq: Tensors = {
  'm.qweight': ['I32', [8, 32]],
  'm.qzeros': ['I32', [1, 4]],
  'm.scales': ['F16', [1, 32], 'scales'],
  'm.g_idx': ['I32', [64], { below: 1 }],
};
const awq: Tensors = {
  'm.qweight': ['I32', [64, 4]],
  'm.qzeros': ['I32', [1, 4]],
  'm.scales': ['F16', [1, 32], 'scales'],
};
const mlx: Tensors = {
  'm.weight': ['U32', [4, 8]],
  'm.scales': ['F16', [4, 1], 'scales'],
  'm.biases': ['F16', [4, 1], 'scales'],
};
const int8: Tensors = { 'm.weight': ['I8', [2, 4]], 'm.weight_scale': ['F32', [2, 1], 'scales'] };
const pack: Tensors = {
  'm.weight_packed': ['I32', [2, 8]],
  'm.weight_scale': ['F32', [2, 2], 'scales'],
  'm.weight_shape': ['I64', [2], [2, 64]],
};
const f8: Tensors = { 'm.weight': ['F8_E4M3', [2, 4]], 'm.weight_scale': ['F32', [], 'scales'] };

const COUNTS = [0, -1, 1.5, '8', [4], {}, true, 2 ** 53];
const GROUPS = [0, -2, 1.5, '32', [32], {}, false];
const FLAGS = ['true', 1, 0, [], {}];
const TEXTS = [1, true, ['gptq'], {}];
const LISTS = ['lm_head', [1], {}, 1];

const withSection =
  (fields: object) =>
  (field: string, value: unknown): unknown =>
    quantization({ ...fields, [field]: value });
const inGroup =
  (fields: object) =>
  (field: string, value: unknown): unknown =>
    group({ num_bits: 8, strategy: 'channel', ...fields, [field]: value });
const ofMlx = (field: string, value: unknown): unknown => ({
  quantization: { bits: 4, group_size: 64, [field]: value },
});
const ofModule = (field: string, value: unknown): unknown => ({
  quantization: { bits: 4, group_size: 64, m: { bits: 4, group_size: 64, [field]: value } },
});

const GPTQ = withSection({ quant_method: 'gptq', bits: 4, group_size: 64 });
const AWQ = withSection({ quant_method: 'awq', bits: 4, group_size: 64, version: 'gemm' });
const FP8 = withSection({ quant_method: 'fp8', weight_block_size: null });
const PACK = inGroup({ num_bits: 4, strategy: 'group', group_size: 32 });

const CT = {
  quant_method: 'compressed-tensors',
  config_groups: { g: { targets: ['Linear'], weights: { num_bits: 8, strategy: 'channel' } } },
};

type ConfigOf = (field: string, value: unknown) => unknown;

describe.each<
  [name: string, tensors: Tensors, configOf: ConfigOf, fields: Record<string, readonly unknown[]>]
>([
  [
    'GPTQ',
    gptq,
    GPTQ,
    {
      bits: COUNTS,
      group_size: GROUPS,
      desc_act: FLAGS,
      sym: FLAGS,
      checkpoint_format: TEXTS,
      pack_dtype: TEXTS,
    },
  ],
  ['AWQ', awq, AWQ, { bits: COUNTS, group_size: GROUPS, zero_point: FLAGS, version: TEXTS }],
  ['MLX', mlx, ofMlx, { bits: COUNTS, group_size: [...COUNTS, -1], mode: TEXTS }],
  ['a module of MLX', mlx, ofModule, { bits: COUNTS, group_size: [...COUNTS, -1], mode: TEXTS }],
  [
    'compressed-tensors',
    int8,
    inGroup({}),
    {
      num_bits: COUNTS,
      symmetric: FLAGS,
      type: ['INT', 1],
      strategy: ['rows', 1],
      actorder: [1, {}],
    },
  ],
  ['pack-quantized', pack, PACK, { num_bits: COUNTS, group_size: GROUPS, symmetric: FLAGS }],
  [
    'FP8',
    f8,
    FP8,
    { modules_to_not_convert: LISTS, weight_block_size: [[0, 1], 128, '128', [128]] },
  ],
])('%s', (_, tensors, configOf, fields) => {
  it.each(Object.entries(fields))('%s', async (field, values) => {
    for (const value of values) {
      const config = configOf(field, value);
      const problem = await problemOf(tensors, config).catch(
        (error: { code: string; message: string }) => `thrown ${error.code}: ${error.message}`,
      );
      expect([value, problem]).toEqual([value, expect.stringMatching(/INVALID: /)]);
      expect(problem).toContain(field.replace(/^mode$/, 'mode'));
    }
    // As Python writes a field that was not set.
    if (/mode|version|type|sym|zero|format|desc|actorder|modules/.test(field)) {
      expect((await open(tensors, configOf(field, null))).problems).toEqual([]);
    }
  });
});

it.each([[{ quantization_config: { quant_method: 5 } }, 'quant_method must be a string, found 5']])(
  '%j is an error',
  async (config, message) => {
    await expect(open(int8, config)).rejects.toMatchObject({
      code: 'SAFETENSORS_QUANTIZATION_INVALID',
      message: expect.stringContaining(message),
    });
  },
);

it('files of older tools are read although their bits are malformed', async () => {
  for (const config of [
    { bits: 0, group_size: 64, desc_act: false },
    { w_bit: '4', q_group_size: 64, version: 'GEMM' },
  ]) {
    const tensors = 'w_bit' in config ? awq : gptq;
    expect(await problemOf(tensors, config)).toMatch(/^INVALID: (?:bits|w_bit) must be/);
  }
});

it('well-formed fields are read', async () => {
  expect((await infoOf(gptq, GPTQ('desc_act', true))).bits).toBe(4);
  expect((await infoOf(awq, AWQ('zero_point', true))).bits).toBe(4);
  expect((await infoOf(mlx, ofMlx('mode', 'affine'))).bits).toBe(4);
  expect((await infoOf(int8, inGroup({})('type', 'int'))).bits).toBe(8);
});

it.each<[tensors: Tensors, config: unknown, problem: RegExp]>([
  [gptq, GPTQ('format', 'marlin'), /^UNSUPPORTED: .*"marlin"/],
  [gptq, GPTQ('checkpoint_format', 'bitblas'), /^UNSUPPORTED: .*"bitblas"/],
  [gptq, GPTQ('rotation', 'hadamard'), /^UNSUPPORTED: the rotation "hadamard"/],
  [
    int8,
    withSection({ ...CT, format: 'zz-quantized' })('zz', 1),
    /^UNSUPPORTED: format "zz-quantized"/,
  ],
  [int8, inGroup({})('type', 'float'), /^INVALID: .*the type "float", found I8 codes/],
  [int8, inGroup({})('strategy', 'token'), /^INVALID: .*strategy must be/],
  [f8, FP8('fmt', 'e5m2'), /^INVALID: .*the fmt "e5m2", found F8_E4M3 codes/],
  [f8, FP8('fmt', 'e4m3fnuz'), /^INVALID: .*"e4m3fnuz"/],
  [f8, FP8('fmt', 'zz'), /^INVALID: .*"zz"/],
  [
    f8,
    withSection({ quant_method: 'modelopt' })('quant_algo', 'ZZ'),
    /^UNSUPPORTED: quant_algo "ZZ"/,
  ],
])(
  '%j with %j is rejected: another layout may have these shapes',
  async (tensors, config, problem) => {
    expect(await problemOf(tensors, config)).toMatch(problem);
  },
);

it('formats that are known are read', async () => {
  expect((await infoOf(gptq, GPTQ('format', 'gptq'))).bits).toBe(4);
  expect((await infoOf(gptq, GPTQ('rotation', null))).bits).toBe(4);
  expect((await infoOf(f8, FP8('fmt', 'E4M3'))).scheme).toBe('fp8');
  const modelopt = withSection({ quant_method: 'modelopt' });
  expect((await infoOf(f8, modelopt('quant_algo', 'fp8'))).scheme).toBe('fp8');
});
