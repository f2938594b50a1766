import { describe, expect, it } from 'vitest';
import type { Dtype } from '../../../src/header/dtype.js';
import { safeOpen } from '../../support/api.js';
import { writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';

type Description = readonly [name: string, dtype: Dtype, shape: readonly number[]];

/** Parameters per dtype of a model of one file. */
async function parameters(
  tensors: readonly Description[],
  config?: unknown,
): Promise<Record<string, number>> {
  const folder = temporaryPath('model');
  const entries = tensors.map(([name, dtype, shape]) => ({ name, dtype, shape }));
  writeBelow(folder, 'model.safetensors', fileBytes(entries));
  if (config !== undefined) {
    const text = typeof config === 'string' ? config : JSON.stringify(config);
    writeBelow(folder, 'config.json', text);
  }
  using checkpoint = safeOpen(folder);
  const { dtypes, parameters: total } = await checkpoint.summary();
  const counts = Object.fromEntries(
    Array.from(dtypes, ([dtype, count]) => [dtype, count.parameters]),
  );
  expect(Object.values(counts).reduce((sum, count) => sum + count, 0)).toBe(total);
  return counts;
}

describe('summary', () => {
  it('counts per dtype and by shard', async () => {
    const folder = writeCheckpoint({
      metadata: { total_parameters: '9' },
      shards: {
        'x.safetensors': [
          { name: 'a', dtype: 'F32', shape: [2, 3] },
          { name: 'scalar', dtype: 'F32', shape: [] },
          { name: 'empty', dtype: 'F16', shape: [0, 4] },
        ],
        'y.safetensors': [
          { name: 'b', dtype: 'F32', shape: [4] },
          { name: 'exponents', dtype: 'F8_E8M0', shape: [8] },
        ],
      },
    });
    using checkpoint = safeOpen(folder);
    const x = {
      tensors: 3,
      parameters: 6,
      byteLength: 28,
      dtypes: new Map([
        ['F32', { tensors: 2, parameters: 6, byteLength: 28 }],
        ['F16', { tensors: 1, parameters: 0, byteLength: 0 }],
      ]),
    };
    const y = {
      tensors: 2,
      parameters: 4,
      byteLength: 24,
      dtypes: new Map([
        ['F8_E8M0', { tensors: 1, parameters: 0, byteLength: 8 }],
        ['F32', { tensors: 1, parameters: 4, byteLength: 16 }],
      ]),
    };
    const summary = await checkpoint.summary();
    expect(Object.fromEntries(summary.shards)).toStrictEqual({
      'x.safetensors': x,
      'y.safetensors': y,
    });
    expect(summary.dtypes.get('F32')).toEqual({ tensors: 3, parameters: 10, byteLength: 44 });
    expect(summary).toMatchObject({
      tensors: 5,
      parameters: 10,
      byteLength: 52,
      totalParameters: 9,
      quantization: null,
    });
  });

  it.each([
    ['12', 6],
    ['5.9', 5],
    ['0', null],
    ['-3', null],
    ['many', null],
  ])('takes total_parameters %s as %s', async (text, expected) => {
    const path = writeBelow(
      temporaryPath('f'),
      'model.safetensors',
      fileBytes([{ name: 'a', dtype: 'U8', shape: [6] }], { metadata: { total_parameters: text } }),
    );
    using checkpoint = safeOpen(path);
    expect((await checkpoint.summary()).totalParameters).toBe(expected);
  });
});

describe('packed parameters', () => {
  const gptq: Description[] = [
    ['m.qweight', 'I32', [4, 8]],
    ['m.qzeros', 'I32', [2]],
    ['m.scales', 'F16', [2]],
    ['m.g_idx', 'I32', [2]],
    ['m.bias', 'F16', [3]],
    ['lm_head.scales', 'F16', [5]],
  ];

  it.each([
    ['gptq', { quant_method: 'gptq', bits: 4 }, { I32: 256, F16: 3 }],
    ['awq without bits', { quant_method: 'AWQ' }, { I32: 256, F16: 3 }],
    ['gptq of no bits', { quant_method: 'gptq', bits: 0 }, { I32: 256, F16: 3 }],
    ['gptq of 3 bits', { quant_method: 'gptq', bits: 3 }, { I32: 320, F16: 3 }],
    [
      'gptq but for a module',
      { quant_method: 'gptq', bits: 8, modules_to_not_convert: ['lm_head'] },
      { I32: 128, F16: 8 },
    ],
    [
      'gptq but for a glob',
      { quant_method: 'gptq', bits: 8, modules_to_not_convert: ['*head*'] },
      { I32: 128, F16: 8 },
    ],
    [
      'MLX by name only',
      { quant_method: 'mlx', bits: 7, load_in_4bit: true },
      { I32: 36, F16: 10 },
    ],
    ['another method', { quant_method: 'new' }, { I32: 36, F16: 10 }],
  ])('%s', async (_, quantization_config, expected) => {
    expect(await parameters(gptq, { quantization_config })).toEqual(expected);
  });

  it('mxfp4', async () => {
    const tensors: Description[] = [
      ['e.down_proj_blocks', 'U8', [10]],
      ['e.down_proj_scales', 'U8', [3]],
      ['e.learned_scales', 'F32', [3]],
      ['e.x', 'U8', [1]],
    ];
    expect(await parameters(tensors, { quantization_config: { quant_method: 'mxfp4' } })).toEqual({
      U8: 21,
      F32: 3,
    });
  });

  it('bitsandbytes', async () => {
    const tensors: Description[] = [
      ['m.weight', 'U8', [10, 1]],
      ['m.weight.absmax', 'F32', [3]],
      ['m.weight.quant_state.bitsandbytes__nf4', 'U8', [7]],
      ['m.weight.quant_map', 'F32', [16]],
    ];
    const config = { quant_method: 'bitsandbytes', load_in_4bit: true };
    expect(await parameters(tensors, { quantization_config: config })).toEqual({ U8: 20, F32: 0 });
    expect(await parameters(tensors, { text_config: { quantization_config: config } })).toEqual({
      U8: 20,
      F32: 0,
    });
    expect(await parameters(tensors, {})).toEqual({ U8: 17, F32: 19 });
  });

  it('compressed-tensors, by group, by ignored module and by format', async () => {
    const tensors: Description[] = [
      ['a.q.weight_packed', 'I32', [8]],
      ['a.k.weight_packed', 'I32', [8]],
      ['lm_head.weight', 'I32', [8]],
      ['a.q.weight_scale', 'F16', [8]],
      ['a.q.weight_shape', 'I64', [2]],
      ['a.norm', 'F16', [2]],
    ];
    const group = (bits: number, targets: string[]) => ({ weights: { num_bits: bits }, targets });
    const config = {
      quant_method: 'compressed-tensors',
      format: 'pack-quantized',
      ignore: ['lm_head'],
      config_groups: { g: group(4, ['Linear']), h: group(3, ['re:.*\\.k$']) },
    };
    expect(await parameters(tensors, { quantization_config: config })).toEqual({
      I32: 64 + 85 + 8,
      F16: 2,
      I64: 0,
    });
    const { config_groups: _, ...plain } = config;
    expect((await parameters(tensors, { quantization_config: plain }))['I32']).toBe(64 + 64 + 8);
    expect(
      (await parameters(tensors, { quantization_config: { ...plain, format: 'dense' } }))['I32'],
    ).toBe(24);
    expect(
      (await parameters(tensors, { quantization_config: { ...plain, ignore: ['re:a.(q|k)'] } }))[
        'I32'
      ],
    ).toBe(192);
  });

  it('fp8 with narrower experts', async () => {
    const tensors: Description[] = [
      ['l.mlp.experts.0.weight', 'U8', [8]],
      ['l.mlp.shared_experts.experts.0.weight', 'U8', [8]],
      ['l.attn.weight', 'F8_E4M3', [8]],
      ['l.attn.weight_scale_inv', 'F32', [1]],
    ];
    const config = { quantization_config: { quant_method: 'fp8' }, expert_dtype: 'fp4' };
    expect(await parameters(tensors, config)).toEqual({ U8: 24, F8_E4M3: 8, F32: 0 });
    const own = { quantization_config: { quant_method: 'fp8', store_dtype: 'mxfp4' } };
    expect((await parameters(tensors, own))['U8']).toBe(24);
  });

  it('MLX, with overrides by module', async () => {
    const module = (name: string): Description[] => [
      [`${name}.weight`, 'U32', [8, 2]],
      [`${name}.scales`, 'F16', [8, 1]],
      [`${name}.biases`, 'F16', [8, 1]],
    ];
    const tensors = [...module('a'), ...module('b'), ...module('c')];
    const quantization = { group_size: 64, bits: 4, b: { bits: 8, group_size: 64 }, c: false };
    expect(await parameters(tensors, { quantization })).toEqual({
      U32: 16 * 8 + 16 * 4 + 16,
      F16: 16,
    });
    const other: Description[] = [
      ['d.weight', 'U32', [4]],
      ['d.scales', 'F16', [4]],
    ];
    expect(await parameters(other, { quantization })).toEqual({ U32: 4, F16: 4 });
    expect(await parameters(other, { quantization: { mode: 'mxfp4' } })).toEqual({
      U32: 32,
      F16: 0,
    });
  });
});

describe('a configuration that is no use', () => {
  const tensors: Description[] = [['m.qweight', 'I32', [4]]];
  const usable = '"quantization_config":{"quant_method":"gptq"}';

  it.each([
    ['no JSON', '{'],
    ['a list', '[1]'],
    ['null', '{"quantization_config":null}'],
    ['deep', '['.repeat(1_000_000)],
    [
      'wrong types',
      '{"quantization_config":{"quant_method":7,"ignore":7,"modules_to_not_convert":{}}}',
    ],
    ['too long', `{${usable},"x":"${' '.repeat(10_000_000)}"}`],
    [
      'too many patterns',
      `{"quantization_config":{"quant_method":"gptq","modules_to_not_convert":[${'"x",'.repeat(1_000_000)}"y"]}}`,
    ],
    [
      'too long a pattern',
      `{"quantization_config":{"quant_method":"gptq","modules_to_not_convert":["${'x'.repeat(9_900_000)}"]}}`,
    ],
    [
      'too many groups without targets',
      `{"quantization_config":{"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{${Array.from({ length: 600_000 }, (_, i) => `"${i}":{}`)}}}}`,
    ],
  ])('counts as none: %s', async (_, config) => {
    const long: Description = ['x'.repeat(20_000), 'U8', [0]];
    expect(await parameters([...tensors, long], config)).toEqual({ I32: 4, U8: 0 });
    expect(await parameters([...tensors, long], `{${usable}}`)).toEqual({ I32: 32, U8: 0 });
  });
});
