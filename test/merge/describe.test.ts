/** Adapters as data: the kinds, ranks and scales with which they are merged. */
import { describe, expect, it } from 'vitest';
import { describeAdapter, mergeAdapters, open, safeOpen } from '../support/api.js';
import { FIXTURES, pathOf } from './fixtures.js';
import { checkpoint, valuesOf } from './make-adapter.js';

const A = valuesOf([2, 3], [1, 2, 3, 4, 5, 6]);
const B = valuesOf([4, 2], [1, 2, 3, 4, 5, 6, 7, 8]);

it.each(FIXTURES)('$name', async ({ base, adapter, skips }) => {
  const input = typeof adapter === 'string' ? { source: adapter } : adapter;
  const { source, scale: strength = 1 } = input as { source: string; scale?: number };
  const { changes } = await mergeAdapters(safeOpen(base), [source], {
    unmatched: skips === true ? 'skip' : 'error',
  });
  expect(strength).toBeGreaterThan(0);
  const found = await describeAdapter(await open(source));
  const described = new Set(
    found?.modules.map(({ kind, rank, scale }) => `${kind} ${rank} ${scale}`),
  );
  for (const { kind, rank, scale } of changes) {
    if (kind === 'bias' || rank === null) continue;
    // LyCORIS does not scale two whole matrices; a scale that no file declares is 1.
    const isDeclared = described.has(`${kind} ${rank} ${scale}`);
    expect(isDeclared || (scale === 1 && described.has(`${kind} ${rank} null`))).toBe(true);
  }
  expect(
    changes.every(({ kind }) => kind === 'bias' || found?.modules.some((one) => one.kind === kind)),
  ).toBe(true);
});

it('of PEFT have the patterns, the targets and the base of the configuration', async () => {
  const found = await describeAdapter(safeOpen(pathOf('peft-rslora-patterns', 'adapter')));
  expect(found?.targetModules).toContain('q_proj');
  expect(new Set(found?.modules.map(({ rank }) => rank)).size).toBeGreaterThan(1);
  const [{ path, keys, rank, alpha, scale } = expect.fail()] = found?.modules ?? [];
  expect(keys).toEqual(['A', 'B'].map((part) => `base_model.model.${path}.lora_${part}.weight`));
  expect(scale).toBeCloseTo((alpha as number) / Math.sqrt(rank as number), 12);
});

it('without adapter_config.json have no scale', async () => {
  const tensors = {
    'base_model.model.a.q.lora_A.weight': A,
    'base_model.model.a.q.lora_B.weight': B,
  };
  expect(await describeAdapter(checkpoint(tensors))).toEqual({
    modules: [
      { path: 'a.q', kind: 'lora', rank: 2, alpha: null, scale: null, keys: Object.keys(tensors) },
    ],
    targetModules: ['q'],
    baseModel: null,
  });
});

it('of whole LoKr matrices have the scale that they are merged with', async () => {
  const whole = { 'm.lokr_w1': A, 'm.lokr_w2': A };
  const alpha = valuesOf([], [4]);
  const found = await describeAdapter(checkpoint({ ...whole, 'm.alpha': alpha }));
  expect(found?.modules).toMatchObject([{ kind: 'lokr', rank: null, alpha: 4, scale: 1 }]);
});

describe('of kohya', () => {
  const tensors = {
    'lora_unet_down_blocks_0_attn1_to_out_0.lora_down.weight': A,
    'lora_unet_down_blocks_0_attn1_to_out_0.lora_up.weight': B,
    'lora_unet_down_blocks_0_attn1_to_out_0.alpha': valuesOf([], [1]),
    'lora_te_text_model_layers_1_mlp_fc1.lora_down.weight': A,
    'lora_te_text_model_layers_1_mlp_fc1.lora_up.weight': B,
  };

  it('have alpha by module, and the base in their metadata', async () => {
    const metadata = { ss_sd_model_name: 'None', ss_base_model_version: 'sdxl_base_v1-0' };
    const found = await describeAdapter(checkpoint(tensors, 'F32', metadata));
    expect(found?.modules).toMatchObject([
      { path: 'lora_te_text_model_layers_1_mlp_fc1', alpha: null, scale: 1 },
      { path: 'lora_unet_down_blocks_0_attn1_to_out_0', alpha: 1, scale: 0.5 },
    ]);
    expect(found?.targetModules).toEqual(['attn1_to_out_0', 'mlp_fc1']);
    expect(found?.baseModel).toBe('sdxl_base_v1-0');
  });

  it('need no values for the rest', async () => {
    const found = await describeAdapter(checkpoint(tensors), { readAlpha: false });
    expect(found?.modules.map(({ rank, scale }) => [rank, scale])).toEqual([
      [2, 1],
      [2, null],
    ]);
  });
});

it.each([[{ 'a.weight': A, 'a.alpha': valuesOf([], [1]) }], [{ 'a.diff': A }], [{}]])(
  '%j is none',
  async (tensors) => {
    expect(await describeAdapter(checkpoint(tensors))).toBe(null);
  },
);

it.each([
  ['lora', ['m.lora_A.weight', 'm.lora_B.weight']],
  ['lora', ['m.processor.to_q_lora.down.weight', 'm.processor.to_q_lora.up.weight']],
  ['lora', ['m.lora.down.weight', 'm.lora.up.weight']],
  ['lora', ['m.lora_linear_layer.down.weight', 'm.lora_linear_layer.up.weight']],
  ['lora', ['m.lora_embedding_A', 'm.lora_embedding_B']],
  ['dora', ['m.lora_down.weight', 'm.lora_up.weight', 'm.dora_scale']],
  ['loha', ['m.hada_w1_a', 'm.hada_w1_b', 'm.hada_w2_a', 'm.hada_w2_b']],
  ['lokr', ['m.lokr_w1', 'm.lokr_w2']],
  ['lokr', ['m.lokr_w1_a', 'm.lokr_w1_b', 'm.lokr_w2']],
  ['ia3', ['m.ia3_l']],
  ['ia3', ['m.on_input', 'm.weight']],
  ['tokens', ['m.trainable_tokens_delta']],
  ['diff', ['lycoris_m.diff']],
  ['diff', ['lora_unet_m.diff_b']],
])('%s is found by the names %j', async (kind, names) => {
  const own = checkpoint(Object.fromEntries(names.map((name) => [name, A])));
  expect((await describeAdapter(own))?.modules).toMatchObject([{ kind }]);
});

it('of kinds that cannot be merged are an error', async () => {
  const tensors = { 'base_model.model.x.oft_R.weight': A };
  await expect(describeAdapter(checkpoint(tensors))).rejects.toMatchObject({
    code: 'SAFETENSORS_MERGE_UNSUPPORTED',
    message: expect.stringContaining('OFT'),
  });
});

it('arguments are checked', async () => {
  const own = checkpoint({ 'a.diff': A });
  for (const source of ['a', null, undefined, {}, 0]) {
    await expect(describeAdapter(source as never)).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_TYPE',
      message: expect.stringContaining('checkpoint must be an open checkpoint'),
    });
  }
  for (const options of [null, { readAlpha: 1 }, { signal: 1 }, { alpha: true }]) {
    await expect(describeAdapter(own, options as never)).rejects.toMatchObject({
      code: expect.stringMatching(/^ERR_/),
    });
  }
  const signal = AbortSignal.abort(new Error('enough'));
  await expect(describeAdapter(own, { signal })).rejects.toThrow('enough');
});
