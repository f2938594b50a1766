/** Parts of quantized weights that are missing: lost, or in another shard. */
import { expect, it } from 'vitest';
import { dequantized, parse, serialize } from '../../support/api.js';
import { Random } from '../../support/random.js';
import { type Content, storedTensors } from '../generated-tensors.js';
import { MAKERS } from '../generated-weights.js';
import { group, open, problemOf, quantization, type Tensors } from '../opened-tensors.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const COUNT = 8;

/** The configuration with the words that require the parts that are there. */
function requiring(config: unknown, names: readonly string[]): unknown {
  const has = (ending: string): boolean => names.some((name) => name.endsWith(ending));
  const text = JSON.stringify(config)
    .replace('"desc_act":false', `"desc_act":${has('.g_idx')}`)
    .replace('"load_in_4bit"', '"bnb_4bit_quant_storage":"bfloat16","load_in_4bit"')
    .replace('"weights":{', has('_zero_point') ? '"weights":{"symmetric":false,' : '"weights":{');
  return JSON.parse(text);
}

/** Sets of parts: each without one, each with one, and random ones. */
function* partsOf(names: readonly string[], random: Random): Generator<readonly string[]> {
  for (const gone of names) yield names.filter((name) => name !== gone);
  for (const only of names) yield [only];
  for (let i = 0; i < 4; i++) yield names.filter(() => random.chance(0.5));
}

it.each(Object.entries(MAKERS))('%s: no part gives values, or is a tensor', async (_, make) => {
  for (let number = 0; number < COUNT; number++) {
    const random = new Random(SEED, number);
    const made = make(random);
    const stored = storedTensors(made, number);
    // About activations; the format of rows is the only one that is read.
    const names = [...stored.keys()].filter((name) => !/input_scale|weight_format/.test(name));
    const config = requiring(made.config, names);
    for (const kept of partsOf(names, random)) {
      if (kept.length === 0 || kept.length === names.length) continue;
      const about = `seed ${SEED}, number ${number}: ${kept.join()} of ${JSON.stringify(made)}`;
      const tensors = kept.map((name) => {
        const { dtype, shape, bytes } = stored.get(name) as NonNullable<
          ReturnType<typeof stored.get>
        >;
        return [name, { dtype, shape, data: bytes }] as const;
      });
      const model = await dequantized(parse(serialize(new Map(tensors))), { config });
      expect(model.keys(), about).toEqual([]);
      expect(
        model.problems.map(({ tensor }) => tensor),
        about,
      ).toEqual([made.name]);
    }
  }
});

const pack: Tensors = {
  'm.weight_packed': ['I32', [2, 8]],
  'm.weight_scale': ['F32', [2, 2], 'scales'],
  'm.weight_shape': ['I64', [2], [2, 64]],
};
const int8: Tensors = { 'm.weight': ['I8', [2, 4]], 'm.weight_scale': ['F32', [2, 1], 'scales'] };
const gptq: Tensors = {
  'm.qweight': ['I32', [8, 32]],
  'm.qzeros': ['I32', [2, 4]],
  'm.scales': ['F16', [2, 32], 'scales'],
};

it.each([
  [
    pack,
    group({ num_bits: 4, strategy: 'group', group_size: 32, symmetric: false }),
    'm.weight_zero_point',
  ],
  [
    pack,
    group({ num_bits: 4, strategy: 'group', group_size: 32, actorder: 'group' }),
    'm.weight_g_idx',
  ],
  [
    pack,
    group({ num_bits: 4, strategy: 'group', group_size: 32, actorder: true }),
    'm.weight_g_idx',
  ],
  [int8, group({ num_bits: 8, strategy: 'channel', symmetric: false }), 'm.weight_zero_point'],
  [
    gptq,
    quantization({ quant_method: 'gptq', bits: 4, group_size: 32, desc_act: true }),
    'm.g_idx',
  ],
])('%j without what its configuration requires is rejected', async (tensors, config, name) => {
  expect(await problemOf(tensors, config)).toBe(`INVALID: "${name}" is missing`);
});

it.each([
  ['F16', [4]],
  ['I32', [3]],
  ['I32', [4, 1]],
] as const)(
  'groups of columns that are %s of shape %j are rejected, also where one scale is for all',
  async (dtype, shape) => {
    const problem = await problemOf({ ...int8, 'm.weight_g_idx': [dtype, shape] }, null);
    expect(problem).toContain('expected "m.weight_g_idx" to be I32 of shape [4]');
  },
);

it.each([[[]], [[2, 1]]])(
  'scales of shape %j have one group of columns, and no list may name another',
  async (scales) => {
    const tensors = { ...int8, 'm.weight_scale': ['F32', scales, 'scales'] } satisfies Tensors;
    const groups = (content: Content): Tensors => ({
      ...tensors,
      'm.weight_g_idx': ['I32', [4], content],
    });
    const valuesOf = async (content: Content): Promise<Float32Array> =>
      (await open(groups(content))).getTensor('m.weight').toFloat32();
    await expect(valuesOf([0, 0, 1, 0])).rejects.toMatchObject({
      code: 'SAFETENSORS_QUANTIZATION_INVALID',
      message: expect.stringContaining('"m.weight_g_idx" is 1 at [2]; 0 to 0 allowed'),
    });
    const declared = await open(tensors, group({ num_bits: 8, strategy: 'channel' }));
    const plain = declared.getTensor('m.weight').toFloat32();
    expect(await valuesOf([0, 0, 0, 0])).toEqual(plain);
    expect(await valuesOf([-1, -1, -1, -1])).toEqual(plain);
  },
);

it.each([
  ['GPTQ', { 'm.qzeros': ['I32', [2, 4]], 'm.scales': ['F16', [2, 32]], 'm.g_idx': ['I32', [64]] }],
  ['MLX', { 'm.scales': ['F16', [2, 4]], 'm.biases': ['F16', [2, 4]] }],
  ['zero points', { 'm.weight_zero_point': ['I32', [2, 4]] }],
  ['musubi-tuner', { 'm.scale_weight': ['F32', []] }],
  ['Mistral', { 'm.qscale_weight': ['F32', []] }],
] satisfies [string, Tensors][])(
  'scales of %s without a weight are a problem',
  async (_, tensors) => {
    expect(await problemOf(tensors, null)).toBe('INVALID: the weight of these scales is missing');
  },
);

it('exponents without blocks are a problem, and plain tensors of such names are none', async () => {
  expect(await problemOf({ w_scales: ['U8', [2, 2, 2]] }, null, 'w')).toContain('is missing');
  const plain: Tensors = {
    'm.weight': ['F32', [4]],
    'm.scales': ['F32', [4]],
    'n.scales': ['F32', [4]],
    'n.scale': ['F32', [4]],
    'o.biases': ['F32', [4]],
  };
  const model = await open(plain);
  expect([model.size, model.problems]).toEqual([5, []]);
});
