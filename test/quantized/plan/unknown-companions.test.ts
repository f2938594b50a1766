/** Codes whose quantizer is not known: a tensor with the name of a scale shows that they are no values. */
import { expect, it } from 'vitest';
import { Random } from '../../support/random.js';
import { open, problemOf, type Tensors } from '../opened-tensors.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);
const COUNT = 300;

const CODES = ['F8_E4M3', 'F8_E5M2', 'I8', 'U8', 'I16', 'U16', 'I32', 'U32'] as const;
const SCALES = ['descale', 'rescale', 'absmax', 'amax', 'zero_point', 'zp', 'codebook', 'lut'];
const MEMBERS = ['w_scale', 'scale_w', 'weight_s', 'weight_range', 'weight_step', 'zz'];
const QUANTIZERS = ['weight_quantizer', 'quantizer', 'quant', 'weight_fake_quant'];

/** Names of codes, and of a scale that may be theirs. */
function namesOf(random: Random): [codes: string, scale: string] {
  const module = random.pick(['m', 'model.layers.0.mlp', 'blocks.11']);
  const scale = random.pick(SCALES);
  switch (random.below(7)) {
    case 5:
      return [`${module}.weight`, `${module}.${random.pick(MEMBERS)}`];
    case 6:
      return [`${module}.weight`, `${module}.${random.pick(['scale', 'scales'])}.weight`];
    case 0:
      return [`${module}.weight`, `${module}.weight_${scale}`];
    case 1:
      return [
        `${module}.weight`,
        `${module}.${random.pick(QUANTIZERS)}.${random.pick(['scale', '_scale', scale])}`,
      ];
    case 2: {
      // `weight.absmax` is a part of bitsandbytes' 4 bits.
      const others = SCALES.filter((name) => name !== 'absmax');
      const codes = random.pick(['data', 'int_data', 'original']);
      return [
        `${module}.weight.${codes}`,
        `${module}.weight.${random.pick(['scale', 'scales', ...others])}`,
      ];
    }
    case 3:
      return [
        `${module}.parametrizations.weight.original`,
        `${module}.parametrizations.weight.0.${scale}`,
      ];
    default:
      return [`${module}.w1`, `${module}.w1_${scale}`];
  }
}

it('codes with a scale of an unknown scheme are rejected, and the scale is named', async () => {
  for (let number = 0; number < COUNT; number++) {
    const random = new Random(SEED, number);
    const [codes, scale] = namesOf(random);
    const dtype = random.pick(CODES);
    const about = `seed ${SEED}, number ${number}: ${dtype} ${codes}, ${scale}`;
    const model = await open({
      [codes]: [dtype, [4, 8]],
      [scale]: [random.pick(['F32', 'BF16', 'F16']), random.pick([[], [1], [4], [4, 1]])],
      'norm.weight': ['BF16', [8]],
    });
    expect(model.keys(), about).toEqual(['norm.weight']);
    expect(model.problems, about).toMatchObject([
      { code: 'SAFETENSORS_QUANTIZATION_UNSUPPORTED', message: expect.stringContaining(scale) },
    ]);
  }
});

it('tensors that are no codes of a weight keep their values', async () => {
  const tensors: Tensors = {
    'attn.bias': ['U8', [1, 1, 4, 4]],
    'attn.masked_bias': ['F32', []],
    'attn.scale': ['F32', []],
    relative_position_index: ['I32', [4, 4]],
    logit_scale: ['F32', []],
    'plain.weight': ['F8_E4M3', [2, 4]],
    'plain.bias': ['F32', [2]],
    'norm.weight': ['BF16', [8]],
    'norm.scale': ['BF16', [8]],
    'ids.weight': ['I8', [4]],
    'ids.weight_scale_of_loss': ['F32', []],
  };
  const model = await open(tensors);
  expect(model.problems).toEqual([]);
  expect(model.keys()).toEqual(Object.keys(tensors).toSorted());
});

it.each([
  [{ 'm.weight': ['I8', [2, 4]], 'm.scale': ['F32', [2, 1]] }, 'SDNQ'],
  [{ 'm.weight': ['F8_E4M3', [2, 4]], 'm.scale': ['BF16', [1]] }, 'SDNQ'],
  [{ 'm.weight': ['F8_E4M3', [2, 4]], 'm._extra_state': ['U8', [64]] }, 'Transformer Engine'],
] satisfies [Tensors, string][])('%j may be of %s', async (tensors, method) => {
  expect(await problemOf(tensors)).toMatch(new RegExp(`^UNSUPPORTED: .*${method}`));
});

it.each(['R1', 'R4', 'model.R2', 'hadamard_K', 'model.hadamard.weight', 'model.layers.R3.weight'])(
  '%s rejects the quantized weights below its module',
  async (rotation) => {
    const model = await open({
      'model.layers.m.weight': ['F8_E4M3', [2, 4]],
      'model.layers.m.weight_scale_inv': ['F32', [1, 1], 'scales'],
      [rotation]: ['F32', [4, 4]],
      'model.norm.weight': ['BF16', [4]],
    });
    expect(model.keys()).toEqual(['model.norm.weight', rotation].toSorted());
    expect(model.problems).toMatchObject([
      {
        code: 'SAFETENSORS_QUANTIZATION_UNSUPPORTED',
        tensor: 'model.layers.m.weight',
        message: expect.stringContaining(`the rotation "${rotation}" is not applied`),
      },
    ]);
  },
);

it('a rotation elsewhere leaves weights as they are', async () => {
  const model = await open({
    'decoder.m.weight': ['F8_E4M3', [2, 4]],
    'decoder.m.weight_scale_inv': ['F32', [1, 1], 'scales'],
    'encoder.R1': ['F32', [4, 4]],
  });
  expect(model.problems).toEqual([]);
});

it('a matrix of that name that is not square is no rotation', async () => {
  const model = await open({
    'm.weight': ['F8_E4M3', [2, 4]],
    'm.weight_scale_inv': ['F32', [1, 1], 'scales'],
    'R1.weight': ['F32', [4, 8]],
    'R1.layers.0.R2': ['F32', [4]],
  });
  expect(model.problems).toEqual([]);
});
