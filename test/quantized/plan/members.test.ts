/** The closing rule: a module with a tensor that the scheme does not know has no known weight. */
import { expect, it } from 'vitest';
import { dequantized, parse, serialize } from '../../support/api.js';
import { Random } from '../../support/random.js';
import { NAME, storedTensors } from '../generated-tensors.js';
import { MAKERS } from '../generated-weights.js';
import { group, open, problemOf, type Tensors } from '../opened-tensors.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const COUNT = 12;

const HARMLESS = [
  'bias',
  'input_scale',
  'output_scale',
  'k_scale',
  'input_zero_point',
  'scale_input',
];
const KNOWN = [
  'svd_up',
  'weight_offset',
  'proj_down',
  'weight_proj_down',
  'lora_up',
  'pre_quant_scale',
];

it.each(Object.entries(MAKERS))('%s: any other member rejects the weight', async (_, make) => {
  for (let number = 0; number < COUNT; number++) {
    const random = new Random(SEED, number);
    const made = make(random);
    const letters = Array.from({ length: random.from(1, 9) }, () => random.pick([...'abcdefgh_']));
    const isHarmless = random.chance(0.3);
    // Blocks of OpenAI and gpt-oss have the name of the weight itself.
    const isOwn = made.name === NAME;
    const member = isHarmless
      ? random.pick(HARMLESS)
      : random.pick([...KNOWN, `zz${letters.join('')}`, `weight_zz${letters.join('')}`]);
    const extra = `${NAME}${isOwn ? random.pick(['_', '.']) : '.'}${member}`;
    const about = `seed ${SEED}, number ${number}: ${extra}, ${JSON.stringify(made)}`;
    const tensors = Array.from(storedTensors(made, number), ([name, { dtype, shape, bytes }]) => {
      return [name, { dtype, shape, data: bytes }] as const;
    });
    const more: (typeof tensors)[number] = [
      extra,
      { dtype: 'F32', shape: [1], data: new Uint8Array(4) },
    ];
    const file = parse(serialize(new Map([...tensors, more])));
    const { config } = made;
    const model = await dequantized(file, { config });
    if (isHarmless) {
      expect(model.problems, about).toEqual([]);
      expect(model.has(made.name), about).toBe(true);
      continue;
    }
    expect(model.keys(), about).toEqual([]);
    expect(model.problems, about).toMatchObject([
      { tensor: made.name, code: 'SAFETENSORS_QUANTIZATION_UNSUPPORTED' },
    ]);
    expect(model.problems[0]?.message, about).toContain(JSON.stringify(extra));
  }
});

const int8: Tensors = { 'm.weight': ['I8', [2, 4]], 'm.weight_scale': ['F32', [2, 1], 'scales'] };

it.each([
  [
    { 'm.weight_offset': ['F32', [2, 1]], 'm.deq_scale': ['F32', [2]] },
    `ModelSlim's "m.deq_scale" and "m.weight_offset" are not applied`,
  ],
  [{ 'm.svd_up': ['F32', [2, 1]] }, `SDNQ's "m.svd_up" is not applied`],
  [{ 'm.weight_codebook': ['F32', [16]] }, 'the scheme does not have "m.weight_codebook"'],
  [{ 'm.R4_input.weight': ['F32', [4, 4]] }, 'the scheme does not have "m.R4_input.weight"'],
  [{ 'm.hadamard': ['F32', [4, 4]] }, 'the scheme does not have "m.hadamard"'],
  [{ 'm.weight.zz': ['F32', [4, 4]] }, 'the scheme does not have "m.weight.zz"'],
] satisfies [Tensors, string][])('%j is named', async (more, message) => {
  expect(await problemOf({ ...int8, ...more })).toBe(`UNSUPPORTED: ${message}`);
});

it('is not about children, neighbours and modules with a plain weight', async () => {
  const tensors: Tensors = {
    ...int8,
    'm.lora_A.weight': ['F32', [1, 4]],
    'm.comfy_attention.config': ['U8', [4]],
    'm.e_score_correction_bias': ['F32', [2]],
    'mm.zz': ['F32', [2]],
    zz: ['F32', [2]],
    'n.weight': ['F32', [2]],
    'n.zz': ['F32', [2]],
  };
  const model = await open(tensors, group({ num_bits: 8, strategy: 'channel' }));
  expect([model.size, model.problems]).toEqual([8, []]);
});

it('names transforms of compressed-tensors, and codes whose scale is gone', async () => {
  const apply = [{ targets: ['Linear'], location: 'input' }];
  const transform_config = { config_groups: { R4: { type: 'hadamard', apply } } };
  const config = group({ num_bits: 8, strategy: 'channel' }, { transform_config });
  const rotated: Tensors = { ...int8, 'm.R4_input.weight': ['F32', [4, 4]] };
  expect(await problemOf(rotated, config)).toContain('"transform_config"');
  const offline = {
    R1: { type: 'hadamard', apply: [{ targets: ['Linear'], location: 'weight_input' }] },
  };
  const turned = group({ num_bits: 8 }, { transform_config: { config_groups: offline } });
  expect(await problemOf(int8, turned)).toContain('weights are in a rotated basis');
  const none = group({ num_bits: 8, strategy: 'channel' }, { transform_config: {} });
  expect((await open(int8, none)).problems).toEqual([]);
  const codes: Tensors = { 'm.weight': ['I8', [2, 4]], 'm.svd_up': ['F32', [2, 1]] };
  expect(await problemOf(codes, null)).toBe(
    'UNSUPPORTED: SDNQ is not dequantized here; found "m.svd_up"',
  );
  expect(
    await problemOf({
      'm.qweight': ['I8', [4, 4]],
      'm.wscales': ['F16', [1, 4]],
      'm.lora_down': ['F16', [4, 1]],
    }),
  ).toBe('UNSUPPORTED: svdquant is not dequantized here; found "m.wscales"');
});
