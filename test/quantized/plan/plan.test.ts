/** Which weights are quantized, and what is refused. */
import { describe, expect, it } from 'vitest';
import { fp8, group, open, problemOf, quantization, type Tensors } from '../opened-tensors.js';

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
      expect(model.info('m.weight').quantization).toBe(undefined);
    }
    const ignored = group({}, { ignore: ['re:.*m'] });
    expect((await open(tensors, ignored)).info('m.weight').quantization).toBe(undefined);
  });

  it('are missed without a configuration only where others have some', async () => {
    const alone: Tensors = { 'm.weight': ['F8_E4M3', [4, 4]] };
    expect((await open(alone)).info('m.weight').quantization).toBe(undefined);
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

  it.each<[string, (at: number, isScale: boolean) => number]>([
    ['after its codes', (at, isScale) => 2 * at + Number(isScale)],
    ['before its codes', (at, isScale) => 2 * at - Number(isScale)],
    ['after all codes', (at, isScale) => at + 100 * Number(isScale)],
    ['before all codes, backwards', (at, isScale) => (isScale ? -at : at)],
    ['anywhere', (at, isScale) => (7 * at + 3 * Number(isScale)) % 23],
  ])('are found %s', async (_, placeOf) => {
    const items = Array.from({ length: 20 }, (_, at) => {
      const weight = [`layers.${at}.weight`, ['F8_E4M3', [4, 4]], placeOf(at, false)] as const;
      const scale = [
        `layers.${at}.weight_scale`,
        ['F32', [], 'scales'],
        placeOf(at, true),
      ] as const;
      return [weight, scale];
    });
    const sorted = items.flat().sort(([, , place], [, , other]) => place - other);
    const tensors = Object.fromEntries(sorted.map(([name, tensor]) => [name, tensor])) as Tensors;
    const model = await open(tensors, fp8());
    expect(model.problems).toEqual([]);
    expect(model.size).toBe(20);
    for (let at = 0; at < 20; at++) {
      const weight = `layers.${at}.weight`;
      expect(model.info(weight).quantization).toMatchObject({
        storedAs: { weight, scale: `${weight}_scale` },
        byteLength: 20,
      });
    }
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

describe('other methods', () => {
  it.each([
    [
      'hqq',
      {
        'm.W_q': ['U8', [4, 4]],
        'm.scale': ['F16', [4, 1]],
        'm.zero': ['F16', [4, 1]],
        'm.nbits': ['I32', []],
        'm.packing': ['U8', [9]],
      },
      'm.weight',
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
      'm.weight',
    ],
    ['eetq', { 'm.qweight': ['I8', [4, 4]], 'm.scales': ['F16', [4]] }, 'm.weight'],
    ['made-up', { 'm.weight': ['I8', [4, 4]], 'm.weight_scale': ['F32', [4, 1]] }, 'm.weight'],
    ['made-up', { 'm.weight': ['U8', [4, 4]] }, 'm.weight'],
    // Codes by names of a separate method, or without what stands next to them.
    ['quanto', { 'm.weight._data': ['I8', [4, 4]] }, 'm.weight'],
    ['torchao', { 'm._weight_qdata': ['I8', [4, 4]] }, 'm.weight'],
    ['vptq', { 'm.indices': ['I32', [1, 4, 4]] }, 'm.indices'],
    ['spqr', { 'm.dense_weights': ['I64', [4, 4]] }, 'm.dense_weights'],
    ['fouroversix', { 'm.quantized_weight_values': ['U8', [4, 4]] }, 'm.quantized_weight_values'],
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

  it.each([
    ['HQQ', { 'm.W_q': ['U8', [4, 4]], 'm.scale': ['F16', [4, 1]] }, 'm.weight'],
    ['HQQ', { 'm.W_q': ['U8', [4, 4]] }, 'm.weight'],
    ['HQQ', { 'm.W_q': ['F16', [4, 2]], 'm.nbits': ['I32', []] }, 'm.weight'],
    ['torchao', { 'm._weight_qdata': ['I8', [4, 4]] }, 'm.weight'],
    ['quanto', { 'm.weight._data': ['I8', [4, 4]] }, 'm.weight'],
    ['AQLM', { 'm.codes': ['I8', [4, 4, 1]], 'm.scales': ['F16', [4, 1]] }, 'm.codes'],
    ['VPTQ', { 'm.indices': ['I32', [4]], 'm.weight_scale': ['F16', [4]] }, 'm.indices'],
    ['QuIP#', { 'm.Qidxs': ['I64', [4, 4]], 'm.SU': ['F16', [4]] }, 'm.Qidxs'],
    ['EXL2', { 'm.q_weight': ['I32', [4, 4]], 'm.q_scale_max': ['F16', [4]] }, 'm.q_weight'],
    ['EXL3', { 'm.trellis': ['I16', [4, 4, 4]], 'm.suh': ['F16', [4]] }, 'm.trellis'],
    ['Marlin', { 'm.B': ['I32', [4, 4]], 'm.s': ['F16', [1, 4]] }, 'm.B'],
  ] satisfies [string, Tensors, string][])(
    '%s is refused by name without a configuration: %j',
    async (method, tensors, name) => {
      expect(await problemOf(tensors, null, name)).toBe(
        `UNSUPPORTED: ${method} is not dequantized here`,
      );
    },
  );

  it.each([
    [
      'W4A16_AWQ',
      { quant_method: 'modelopt', quant_algo: 'W4A16_AWQ' },
      { 'm.weight': ['U8', [2, 8]], 'm.weight_scale': ['BF16', [4, 1]] },
    ],
    [
      'marlin-24',
      { quant_method: 'compressed-tensors', format: 'marlin-24' },
      { 'm.weight_packed': ['I32', [4, 8]], 'm.scale_packed': ['F16', [4]] },
    ],
    [
      'gemv',
      { quant_method: 'awq', version: 'gemv', bits: 4, group_size: 4 },
      { 'm.qweight': ['I32', [4, 8]], 'm.qzeros': ['I32', [4, 1]], 'm.scales': ['F16', [4, 8]] },
    ],
    [
      'gemv_fast',
      { quant_method: 'awq', version: 'gemv_fast', bits: 4, group_size: 4 },
      { 'm.qweight': ['I16', [4, 8]], 'm.qzeros': ['F16', [4, 1]], 'm.scales': ['F16', [4, 8]] },
    ],
  ] satisfies [string, object, Tensors][])(
    'of a method that is known: %s is refused by name',
    async (variant, fields, tensors) => {
      const model = await open(tensors, quantization(fields));
      expect(model.problems[0]).toMatchObject({
        code: 'SAFETENSORS_QUANTIZATION_UNSUPPORTED',
        tensor: 'm.weight',
        message: expect.stringContaining(`"${variant}"`),
      });
    },
  );

  it('are not seen in plain tensors with names like theirs', async () => {
    const tensors: Tensors = {
      'attention.W_q': ['F32', [4, 4]],
      'attention.W_k': ['F32', [4, 4]],
      'book.codes': ['I32', [4]],
      'book.indices': ['I32', [4, 4]],
      'lora.B': ['F16', [4, 4]],
    };
    const model = await open(tensors);
    expect([model.problems, model.size]).toEqual([[], 5]);
  });

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
