/** Weights that look like those of two tools are problems unless a marker, a configuration or the caller tells. */
import { expect, it } from 'vitest';
import { dequantized } from '../../support/api.js';
import { fileOf, group, open, problemOf, quantization, type Tensors } from '../opened-tensors.js';

const INT8: Tensors = {
  'm.weight': ['I8', [4, 16]],
  'm.weight_scale': ['F32', [4, 1], 'scales'],
};
const NVFP4: Tensors = {
  'm.weight': ['U8', [128, 32]],
  'm.weight_scale': ['F8_E4M3', [128, 4], 'scales'],
  'm.weight_scale_2': ['F32', [], 'scales'],
};
const MXFP8: Tensors = {
  'm.weight': ['F8_E4M3', [128, 128]],
  'm.weight_scale': ['F8_E8M0', [128, 4], 'scales'],
};

const ADVICE = "pass assume: 'plain' to dequantize() for codes in row order that are not rotated";

it.each([
  ['int8', INT8, 'rotated', group({ num_bits: 8, strategy: 'channel' })],
  ['nvfp4', NVFP4, 'in tiles', quantization({ quant_method: 'modelopt', quant_algo: 'NVFP4' })],
  ['mxfp8', MXFP8, 'in tiles', quantization({ quant_method: 'mxfp8' })],
] as const)('%s is one of them', async (scheme, tensors, how, config) => {
  expect(await problemOf(tensors, null)).toBe(
    `UNSUPPORTED: ${scheme} without a marker: may be ${how}, "m.comfy_quant" is missing; ${ADVICE}`,
  );
  const [problem] = (await open(tensors, null)).problems;
  expect(problem?.advice).toEqual([{ option: 'assume', value: 'plain', text: ADVICE }]);
  const declared = await open(tensors, config);
  const assumed = await dequantized(fileOf(tensors), { config: null, assume: 'plain' });
  for (const model of [declared, assumed]) {
    expect([model.keys(), model.problems]).toEqual([['m.weight'], []]);
    expect(model.info('m.weight').quantization).toMatchObject({ scheme });
  }
  const values = assumed.getTensor('m.weight').toFloat32();
  expect(values).toEqual(declared.getTensor('m.weight').toFloat32());
});

it.each([
  ['scale_weight', { 'm.weight': ['I8', [4, 16]], 'm.scale_weight': ['F32', [4, 1], 'scales'] }],
  [
    'weight_scale_inv',
    { 'm.weight': ['I8', [4, 16]], 'm.weight_scale_inv': ['F32', [4, 1], 'scales'] },
  ],
] satisfies [string, Tensors][])('int8 with %s is, too', async (_, tensors) => {
  expect(await problemOf(tensors, null)).toMatch(/^UNSUPPORTED: int8 without a marker/);
});

it.each([
  ['a scale of BF16', { ...INT8, 'm.weight_scale': ['BF16', [4, 1], 'scales'] }],
  ['zero points', { ...INT8, 'm.weight_zero_point': ['I8', [4, 1]] }],
  [
    'fewer rows than a tile',
    { ...NVFP4, 'm.weight': ['U8', [96, 32]], 'm.weight_scale': ['F8_E4M3', [96, 4], 'scales'] },
  ],
] satisfies [string, Tensors][])('others with %s are not', async (_, tensors) => {
  expect((await open(tensors, null)).problems).toEqual([]);
});

it.each([
  ['a layer of tiles', { ...NVFP4, 'm.weight': ['U8', [32, 32]] }],
  ['MXFP8 of tiles', { ...MXFP8, 'm.weight': ['F8_E4M3', [32, 32]] }],
  [
    'AWQ',
    {
      'm.weight': ['I8', [4, 32]],
      'm.weight_scale': ['BF16', [1, 4]],
      'm.weight_zeros': ['BF16', [1, 4]],
    },
  ],
  [
    'W4A8',
    {
      'm.weight': ['I8', [4, 32]],
      'm.weight_s_rel': ['F32', [4, 4]],
      'm.weight_s_channel': ['F32', [4]],
    },
  ],
] satisfies [string, Tensors][])('%s lacks its marker, whatever is assumed', async (_, tensors) => {
  expect(await problemOf(tensors, null)).toBe('INVALID: "m.comfy_quant" is missing');
  const model = await dequantized(fileOf(tensors), { assume: 'plain' });
  expect(model.problems).toHaveLength(1);
});

it('nothing else can be assumed', async () => {
  const assume = 'rotated' as 'plain';
  await expect(dequantized(fileOf(INT8), { assume })).rejects.toMatchObject({
    code: 'ERR_OUT_OF_RANGE',
  });
});
