import { describe, expect, it } from 'vitest';
import { packedWeightOf } from '../../../src/quantized/plan/packed-weights.js';
import { safeOpen } from '../../support/api.js';
import { QUANTIZED_MODELS } from '../quantized-models.js';

/** For each tensor that belongs to a weight, by name: that weight. */
function belonging(tensors: Readonly<Record<string, string>>): Record<string, string> {
  const dtypes = new Map(Object.entries(tensors));
  const members = new Set(Array.from(dtypes.keys(), (name) => name.split('.').at(-1)));
  const dtypeOf = (other: string): string | undefined => dtypes.get(other);
  const found = [...dtypes.keys()].map((name) => [name, packedWeightOf(name, dtypeOf)]);
  const faster = [...dtypes.keys()].map((name) => [
    name,
    packedWeightOf(name, dtypeOf, (member) => members.has(member)),
  ]);
  expect(faster).toEqual(found);
  return Object.fromEntries(found.filter(([, weight]) => weight !== null));
}

/** A module `m` with these tensors: the tensors that are read with each of its weights. */
const SCHEMES: Readonly<Record<string, readonly [Record<string, string>, companions: string[]]>> = {
  'FP8 in blocks': [
    { weight: 'F8_E4M3', weight_scale_inv: 'F32', bias: 'BF16' },
    ['weight_scale_inv'],
  ],
  'FP8 with activations': [
    { weight: 'F8_E5M2', weight_scale: 'F32', input_scale: 'F32', k_scale: 'F32' },
    ['weight_scale', 'input_scale', 'k_scale'],
  ],
  'DeepSeek-V4': [{ weight: 'I8', scale: 'F32' }, ['scale']],
  Mistral: [
    { weight: 'F8_E4M3', qscale_weight: 'BF16', qscale_act: 'BF16' },
    ['qscale_weight', 'qscale_act'],
  ],
  ComfyUI: [
    { weight: 'F8_E4M3', scale_weight: 'F32', scale_input: 'F32', bias: 'F16' },
    ['scale_weight', 'scale_input'],
  ],
  'packed integers': [
    { weight_packed: 'I32', weight_scale: 'BF16', weight_zero_point: 'I32', weight_shape: 'I64' },
    ['weight_scale', 'weight_zero_point', 'weight_shape'],
  ],
  'NVFP4, compressed-tensors': [
    {
      weight_packed: 'U8',
      weight_scale: 'F8_E4M3',
      weight_global_scale: 'F32',
      input_global_scale: 'F32',
    },
    ['weight_scale', 'weight_global_scale', 'input_global_scale'],
  ],
  'NVFP4, modelopt': [
    { weight: 'U8', weight_scale: 'F8_E4M3', weight_scale_2: 'F32', pre_quant_scale: 'BF16' },
    ['weight_scale', 'weight_scale_2', 'pre_quant_scale'],
  ],
  'bitsandbytes, 8 bits': [{ weight: 'I8', SCB: 'F32', weight_format: 'U8' }, ['SCB']],
  GPTQ: [
    { qweight: 'I32', qzeros: 'I32', scales: 'F16', g_idx: 'I32', bias: 'F16' },
    ['qzeros', 'scales', 'g_idx'],
  ],
  'AWQ, fast': [{ qweight: 'I16', scales: 'F16', scaled_zeros: 'F16' }, ['scales', 'scaled_zeros']],
  'SVDQuant, older names': [
    { qweight: 'I8', wscales: 'BF16', smooth: 'BF16', smooth_orig: 'BF16', lora_down: 'BF16' },
    ['wscales', 'smooth', 'smooth_orig'],
  ],
  SVDQuant: [
    {
      qweight: 'I8',
      wscales: 'F8_E4M3',
      wtscale: 'BF16',
      smooth_factor: 'BF16',
      proj_down: 'BF16',
    },
    ['wscales', 'wtscale', 'smooth_factor'],
  ],
  'SVDQuant with AWQ': [
    { qweight: 'I32', wscales: 'BF16', wzeros: 'BF16', bias: 'BF16' },
    ['wscales', 'wzeros'],
  ],
  MLX: [{ weight: 'U32', scales: 'BF16', biases: 'BF16', bias: 'BF16' }, ['scales', 'biases']],
  Quanto: [
    { 'weight._data': 'I8', 'weight._scale': 'F16', input_scale: 'F16', output_scale: 'F16' },
    ['weight._scale', 'input_scale', 'output_scale'],
  ],
  torchao: [{ _weight_qdata: 'I8', _weight_scale: 'BF16' }, ['_weight_scale']],
  AQLM: [{ codes: 'I8', codebooks: 'F16', scales: 'F16' }, ['codebooks', 'scales']],
};

describe('a tensor belongs to the quantized weight beside it', () => {
  it.each(Object.entries(SCHEMES))('%s', (_, [tensors, companions]) => {
    for (const start of ['', 'model.layers.3.mlp.experts.17.down_proj.']) {
      const named = Object.entries(tensors).map(([name, dtype]) => [start + name, dtype]);
      const found = belonging(Object.fromEntries(named));
      expect(Object.keys(found)).toEqual(companions.map((name) => start + name));
      expect(new Set(Object.values(found)).size).toBe(1);
    }
  });

  it('of experts that are one parameter', () => {
    const p = 'layers.0.mlp.experts.gate_up_proj';
    expect(
      belonging({
        [p]: 'F8_E4M3',
        [`${p}_scale_inv`]: 'F32',
        [`${p}_activation_scale`]: 'F32',
        [`${p}_bias`]: 'BF16',
      }),
    ).toEqual({ [`${p}_scale_inv`]: p, [`${p}_activation_scale`]: p });
    expect(
      belonging({ [`${p}_blocks`]: 'U8', [`${p}_scales`]: 'U8', [`${p}_bias`]: 'F32' }),
    ).toEqual({ [`${p}_scales`]: `${p}_blocks` });
  });

  it('of bitsandbytes with 4 bits, whose weight may be stored as a plain dtype', () => {
    const of = (dtype: string): Record<string, string> =>
      belonging({
        'm.weight': dtype,
        'm.weight.absmax': 'U8',
        'm.weight.quant_map': 'F32',
        'm.weight.nested_absmax': 'F32',
        'm.weight.nested_quant_map': 'F32',
        'm.weight.quant_state.bitsandbytes__nf4': 'U8',
      });
    const parts = ['absmax', 'quant_map', 'nested_absmax', 'nested_quant_map'];
    const companions = parts.map((part) => [`m.weight.${part}`, 'm.weight']);
    expect(of('U8')).toMatchObject(Object.fromEntries(companions));
    expect(of('BF16')).toMatchObject(Object.fromEntries([['m.weight', 'm.weight'], ...companions]));
  });

  it('of attention, whose projections have the weights', () => {
    expect(
      belonging({ 'attn.k_proj.weight': 'F8_E4M3', 'attn.k_scale': 'F32', 'attn.v_scale': 'F32' }),
    ).toEqual({ 'attn.k_scale': 'attn.k_proj.weight', 'attn.v_scale': 'attn.k_proj.weight' });
    expect(
      belonging({ 'a.wk.weight': 'F8_E4M3', 'a.kv_fake_quantizer.qscale_act': 'BF16' }),
    ).toEqual({ 'a.kv_fake_quantizer.qscale_act': 'a.wk.weight' });
  });

  it('of indices of 64 bits, which QuIP# has', () => {
    expect(
      belonging({ 'm.Qidxs': 'I64', 'm.SU': 'F16', 'm.SV': 'F16', 'm.Wscale': 'F32' }),
    ).toMatchObject({ 'm.SU': 'm.Qidxs', 'm.SV': 'm.Qidxs', 'm.Wscale': 'm.Qidxs' });
  });
});

it('is plain in a model that only has such names', () => {
  const plain = {
    'a.scales': 'F32',
    'a.biases': 'F32',
    'a.absmax': 'F32',
    'a.quant_map': 'F32',
    'a.nested_absmax': 'F32',
    'a.SCB': 'F32',
    'a.weight': 'F32',
    'a.weight_scale': 'F32',
    'a.weight_scale_inv': 'BF16',
    'a.weight.absmax': 'F32',
    'a.input_scale': 'F32',
    'a.scale': 'F32',
    'a.attn.k_scale': 'F32',
    'a.attn.k_proj.weight': 'F16',
    'a.W_q': 'F32',
    'a.zero': 'F32',
    scales: 'F32',
    weight: 'F64',
    logit_scale: 'F32',
    'b.position_ids': 'I64',
    'b.scale': 'F32',
    'b.ids': 'I64',
    'b.scales': 'F32',
    'b.mask': 'BOOL',
    'b.mask_scale': 'F32',
    'vq.codes': 'I64',
    'vq.codebooks': 'F32',
    'c.position': 'I64',
    'c.position_scale': 'F32',
    'd.lora_down.weight': 'F8_E4M3',
    'd.alpha': 'F16',
    'd.dora_scale': 'F16',
    'd.gamma': 'F32',
    'd.layer_scale': 'F32',
  };
  expect(belonging(plain)).toEqual({});
});

describe('where the weight is not in the source', () => {
  const certain = [
    ...['weight_scale', 'weight_scale_inv', 'weight_scale_2', 'weight_global_scale', 'SCB'],
    ...['absmax', 'quant_map', 'nested_absmax', 'nested_quant_map'].map((end) => `weight.${end}`),
  ];

  it.each(certain)('%s belongs to it by its name alone', (end) => {
    expect(belonging({ [`m.${end}`]: 'F32' })).toEqual({ [`m.${end}`]: 'm.weight' });
    expect(belonging({ [end]: 'BF16' })).toEqual({ [end]: 'weight' });
    // Of the weight that is there, its dtype says whether it is packed.
    expect(belonging({ [`m.${end}`]: 'F32', 'm.weight': 'F16' })).toEqual({});
  });

  it('is the same after names with thousands of last parts', () => {
    const other = Array.from({ length: 5000 }, (_, i) => [`m.part${i}`, 'BF16']);
    const own = { 'm.weight_scale': 'F32', 'a.k_scale': 'F32', 'a.k_proj.weight': 'F8_E4M3' };
    const expected = { 'm.weight_scale': 'm.weight', 'a.k_scale': 'a.k_proj.weight' };
    expect(belonging({ ...own, ...Object.fromEntries(other) })).toEqual(expected);
    expect(belonging(own)).toEqual(expected);
  });

  it('other names say nothing', () => {
    const names = ['logit_scale', 'layer_scale', 'scale', 'm.scale', 'm.scales', 'm.qzeros'];
    const plain = [...names, 'm.absmax', 'm.biases', 'm.input_scale', 'my_weight_scale', 'm.SCBs'];
    expect(belonging(Object.fromEntries(plain.map((name) => [name, 'F32'])))).toEqual({});
  });
});

it.each(QUANTIZED_MODELS)('finds all of $id, and nothing that is plain', ({ path, isPlain }) => {
  using checkpoint = safeOpen(path);
  const dtypeOf = (name: string): string | undefined =>
    checkpoint.has(name) ? checkpoint.info(name).dtype : undefined;
  const wide = checkpoint.keys().filter((name) => /^(B?F16|F32|F64)$/.test(dtypeOf(name) ?? ''));
  for (const name of wide) {
    expect([name, packedWeightOf(name, dtypeOf) === null]).toEqual([name, isPlain(name)]);
  }
});
