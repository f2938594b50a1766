/** Keys of kohya and Diffusers: the weights that they mean in bases of Diffusers and in single files. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseKey } from '../../src/merge/adapters/keys.js';
import { BaseNames } from '../../src/merge/adapters/names.js';
import { diffusersName, sgmNames } from '../../src/merge/adapters/unet-names.js';
import { mergeAdapters } from '../support/api.js';
import { pathOf } from './fixtures.js';
import { checkpoint, expectValues, valuesOf } from './make-adapter.js';

type NameTable = Readonly<Record<string, { readonly keys: string[]; readonly alpha: string[] }>>;
const TABLES: Readonly<Record<string, NameTable>> = JSON.parse(
  readFileSync(pathOf('diffusers-names', 'expected.json'), 'utf8'),
);

/** Modules of Diffusers and of transformers for the keys of the table, which spells attention in the old way. */
const MODULES: Readonly<Record<string, string>> = {
  'attn1.processor.to_q': 'attn1.to_q',
  'attn2.processor.to_out': 'attn2.to_out.0',
  'attn2.processor.to_v': 'attn2.to_v',
  'self_attn.to_q': 'self_attn.q_proj',
  'self_attn.to_k': 'self_attn.k_proj',
  'self_attn.to_out': 'self_attn.out_proj',
};

function moduleOf(key: string): string {
  const { path } = parseKey(key) ?? { path: '' };
  const inner = path.replace(/^(?:unet|text_encoder(?:_2)?)\./, '');
  const old = Object.keys(MODULES).find((end) => inner.endsWith(end));
  return old === undefined ? inner : inner.slice(0, -old.length) + MODULES[old];
}

describe.each(Object.entries(TABLES))('%s', (_, table) => {
  it.each(Object.entries(table))('%s', (kohya, { keys, alpha }) => {
    const module = moduleOf(keys[0] as string);
    const names = new BaseNames([`${module}.weight`, 'other.weight']);
    const found = [{ name: `${module}.weight`, part: null, component: null }];
    expect(names.find(kohya, 'weight', false)).toEqual(found);
    for (const key of [...keys, ...alpha]) {
      expect(names.find(parseKey(key)?.path ?? '', 'weight', false), key).toEqual(found);
    }
  });
});

it.each([
  ['down_blocks.0.resnets.1.conv2', 'input_blocks.2.0.out_layers.3'],
  ['down_blocks.2.attentions.0.proj_in', 'input_blocks.7.1.proj_in'],
  ['down_blocks.0.downsamplers.0.conv', 'input_blocks.3.0.op'],
  ['mid_block.resnets.1.norm1', 'middle_block.2.in_layers.0'],
  ['up_blocks.2.resnets.0.conv_shortcut', 'output_blocks.6.0.skip_connection'],
  ['conv_out', 'out.2'],
])('%s is %s in single files', (diffusers, sgm) => {
  expect(sgmNames(diffusers)).toEqual([sgm]);
  expect(diffusersName(sgm)).toBe(diffusers);
});

const A = valuesOf([1, 2], [1, 1]);
const B = valuesOf([2, 1], [1, 2]);
const zeros = (rows: number): ReturnType<typeof valuesOf> =>
  valuesOf([rows, 2], new Array<number>(2 * rows).fill(0));
const lora = (path: string): Record<string, ReturnType<typeof valuesOf>> => ({
  [`${path}.lora_down.weight`]: A,
  [`${path}.lora_up.weight`]: B,
});

it('kohya adapters match the models of a single file', async () => {
  const base = checkpoint({
    'model.diffusion_model.input_blocks.4.1.proj_in.weight': zeros(2),
    'conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight': zeros(2),
    'conditioner.embedders.1.model.transformer.resblocks.0.mlp.c_fc.weight': zeros(2),
    'conditioner.embedders.1.model.transformer.resblocks.0.attn.in_proj_weight': zeros(6),
  });
  const adapter = checkpoint({
    ...lora('lora_unet_down_blocks_1_attentions_0_proj_in'),
    ...lora('lora_te1_text_model_encoder_layers_0_mlp_fc1'),
    ...lora('lora_te2_text_model_encoder_layers_0_self_attn_k_proj'),
    ...lora('lora_te2_text_model_encoder_layers_0_self_attn_v_proj'),
  });
  const model = await mergeAdapters(base, [adapter]);
  const [unet, te1, fc, fused] = [
    'model.diffusion_model.input_blocks.4.1.proj_in.weight',
    'conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight',
    'conditioner.embedders.1.model.transformer.resblocks.0.mlp.c_fc.weight',
    'conditioner.embedders.1.model.transformer.resblocks.0.attn.in_proj_weight',
  ] as const;
  expectValues(model, unet, [1, 1, 2, 2]);
  expectValues(model, te1, [1, 1, 2, 2]);
  expectValues(model, fc, [0, 0, 0, 0]);
  expectValues(model, fused, [0, 0, 0, 0, 1, 1, 2, 2, 1, 1, 2, 2]);
  const rows = model.getTensor(fused).toFloat32({ rows: [3, 5] });
  expect(rows).toEqual(Float32Array.of(2, 2, 1, 1));
});

it('an adapter of two text encoders needs the component', async () => {
  const base = checkpoint({ 'text_model.x.weight': zeros(2) });
  const tensors = { ...lora('lora_te1_text_model_x'), ...lora('lora_te2_text_model_x') };
  tensors['lora_te2_text_model_x.lora_up.weight'] = valuesOf([2, 1], [3, 4]);
  await expect(mergeAdapters(base, [checkpoint(tensors)])).rejects.toMatchObject({
    code: 'SAFETENSORS_MERGE_MISMATCH',
    message: expect.stringContaining("pass component, such as 'te2'"),
  });
  const source = checkpoint(tensors);
  const model = await mergeAdapters(base, [{ source, component: 'te2' }]);
  expectValues(model, 'text_model.x.weight', [3, 3, 4, 4]);
});

it.each(['unet', 'transformer', 'diffusion_model'])(
  'dotted keys may begin with %s',
  async (prefix) => {
    const base = checkpoint({ 'blocks.0.to_q.weight': zeros(2) });
    const parts = {
      [`${prefix}.blocks.0.to_q.lora_A.weight`]: A,
      [`${prefix}.blocks.0.to_q.lora_B.weight`]: B,
    };
    const alpha = { [`${prefix}.blocks.0.to_q.alpha`]: valuesOf([], [3]) };
    expectValues(
      await mergeAdapters(base, [checkpoint({ ...parts, ...alpha })]),
      'blocks.0.to_q.weight',
      [3, 3, 6, 6],
    );
    const metadata = {
      lora_adapter_metadata: JSON.stringify({ [`${prefix}.r`]: 1, [`${prefix}.lora_alpha`]: 2 }),
    };
    const listed = checkpoint(parts, 'F32', metadata);
    expectValues(await mergeAdapters(base, [listed]), 'blocks.0.to_q.weight', [2, 2, 4, 4]);
  },
);
