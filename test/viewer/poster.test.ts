/** The poster of a model: roles, layers, parts, colours, and words. */
import { describe, expect, it } from 'vitest';
import {
  cellMaxima,
  cellValues,
  colourLimit,
  factorRange,
  filledValues,
  formatLayers,
  layerPlace,
  PARTS,
  type Part,
  partNumber,
  partOf,
  posterOf,
  relativeTo,
  strongestLayers,
} from '../../viewer/poster.js';

/** The poster of tensors by name and shape. */
function poster(tensors: Readonly<Record<string, string>>) {
  const names = Object.keys(tensors);
  const shapes = Object.values(tensors);
  const dimensions = (text: string) => text.split(' × ').map(Number);
  const part = Uint8Array.from(names, (name, at) =>
    partNumber(partOf(name, dimensions(shapes[at] as string))),
  );
  return posterOf({ names, shapes, part });
}

describe('a tensor', () => {
  const names: Readonly<Record<Part, readonly string[]>> = {
    attention: [
      'h.0.attn.c_attn.weight',
      'model.layers.1.self_attn.q_proj.weight',
      'model.layers.1.self_attn.q_a_layernorm.weight',
      'bert.encoder.layer.0.attention.output.LayerNorm.weight',
      'down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight',
      'blk.0.attn_q.weight',
      'decoder.mid_block.attentions.0.to_out.0.weight',
      'blocks.0.to_qkv.weight',
      'perceiver.layers.0.0.to_kv.weight',
      'ip_adapter.1.to_k_ip.weight',
    ],
    mlp: [
      'h.0.mlp.c_fc.weight',
      'model.layers.1.mlp.shared_experts.up_proj.weight',
      'bert.encoder.layer.0.output.dense.weight',
      'blk.0.ffn_up.weight',
      'layers.0.feed_forward.w1.weight',
    ],
    router: ['model.layers.3.mlp.gate.weight', 'layers.0.block_sparse_moe.gate.weight'],
    experts: ['model.layers.3.mlp.experts.255.up_proj.weight', 'model.layers.9.mlp.experts'],
    norms: ['h.0.ln_1.weight', 'model.norm.weight', 'layers.0.post_attention_layernorm.weight'],
    embeddings: [
      'wte.weight',
      'model.embed_tokens.weight',
      'lm_head.weight',
      'output.weight',
      'resnets.0.time_emb_proj.bias',
    ],
    convolutions: [
      'conv_in.weight',
      'down_blocks.0.downsamplers.0.conv.bias',
      'mixer.conv1d.weight',
      'features.denseblock1.denselayer1.conv1.weight',
      'segformer.encoder.block.0.0.mlp.dwconv.dwconv.weight',
      'convnextv2.encoder.stages.0.layers.0.dwconv.bias',
    ],
    other: ['time.0.weight', 'convnextv2.encoder.stages.0.layers.0.layer_scale_parameter'],
    buffers: ['model.layers.0.self_attn.rotary_emb.inv_freq', 'embeddings.position_ids'],
  };
  it.each(Object.entries(names))('of %s is recognized by its name', (part, all) => {
    expect(all.map((name) => partOf(name, [4, 4]))).toEqual(all.map(() => part));
  });

  it('that is a causal mask is a buffer; the bias of an attention is none', () => {
    expect(partOf('h.0.attn.bias', [1, 1, 1024, 1024])).toBe('buffers');
    expect(partOf('h.0.attn.bias', [2304])).toBe('attention');
  });

  it('of four or five dimensions is a convolution, unless its name shows something else', () => {
    expect(partOf('features.0.weight', [64, 3, 7, 7])).toBe('convolutions');
    expect(partOf('features.0.weight', [64, 3, 3, 7, 7])).toBe('convolutions');
    expect(partOf('features.0.weight', [64, 3, 7])).toBe('other');
    expect(partOf('visual.patch_embed.proj.weight', [64, 3, 7, 7])).toBe('embeddings');
  });

  it('is none if it is a constant to broadcast, or has more dimensions', () => {
    expect(partOf('latents_mean', [1, 16, 1, 1])).toBe('other');
    expect(partOf('pixel_mean', [1, 3, 1, 1])).toBe('other');
    expect(partOf('model.24.anchor_grid', [3, 1, 3, 1, 1, 2])).toBe('other');
  });
});

describe('a poster', () => {
  const found = poster({
    'wte.weight': '8 × 4',
    'h.0.ln_1.weight': '4',
    'h.10.ln_1.weight': '4',
    'h.2.mlp.c_fc.weight': '4 × 4',
    'h.0.mlp.c_fc.weight': '4 × 4',
    'h.2.mlp.experts.0.up.weight': '4 × 4',
    'h.2.mlp.experts.1.up.weight': '4 × 4',
    'h.2.attn.bias': '1 × 1 × 4 × 4',
  });

  it('has a row for every role, by part, and a column for every layer', () => {
    expect(found.layers).toEqual([0, 2, 10]);
    expect(
      found.rows.map(({ label, part, isMatrix, isFolded }) => ({
        label,
        part,
        isMatrix,
        isFolded,
      })),
    ).toEqual([
      { label: 'mlp.c_fc', part: 'mlp', isMatrix: true, isFolded: false },
      { label: 'mlp.experts.up', part: 'experts', isMatrix: true, isFolded: true },
      { label: 'ln_1', part: 'norms', isMatrix: false, isFolded: false },
    ]);
    expect(found.rows.map(({ cells }) => cells)).toEqual([
      [[4], [3], []],
      [[], [5, 6], []],
      [[1], [], [2]],
    ]);
  });

  it('leaves buffers out, and lists what is in no layer', () => {
    expect(found.outside).toEqual([0]);
    expect(found.rows.flatMap(({ cells }) => cells.flat())).not.toContain(7);
  });

  it('has the greatest of the tensors of a cell, so that one of many experts shows', () => {
    const values = Float64Array.of(9, 1, 2, 3, 4, 0.5, 0, 7);
    expect(cellMaxima(found, values).map((row) => [...row])).toEqual([
      [4, 3, Number.NaN],
      [Number.NaN, 0.5, Number.NaN],
      [1, Number.NaN, 2],
    ]);
    const unknown = cellMaxima(found, values.with(5, Number.NaN).with(6, Number.NaN))[1];
    expect([...(unknown as Float64Array)]).toEqual([Number.NaN, Number.NaN, Number.NaN]);
  });

  it('fills unknown values by role and layer', () => {
    const names = [0, 1].flatMap((layer) =>
      [0, 1, 2].map((expert) => `layers.${layer}.experts.${expert}.up.weight`),
    );
    const { NaN: none } = Number;
    expect([...filledValues(names, [1, none, 3, none, none, none])]).toEqual([
      ...[1, 2, 3],
      ...[none, none, none],
    ]);
  });

  it('has the median of the tensors of a cell, without those that are not known', () => {
    const values = Float64Array.of(9, 1, 2, 3, 4, 5, Number.NaN, 7);
    expect(cellValues(found, values).map((row) => [...row])).toEqual([
      [4, 3, Number.NaN],
      [Number.NaN, 5, Number.NaN],
      [1, Number.NaN, 2],
    ]);
  });

  it('distinguishes roles with the same ending', () => {
    const { rows } = poster({
      'encoder.layers.0.mlp.fc.weight': '4 × 4',
      'decoder.layers.0.mlp.fc.weight': '4 × 4',
      'decoder.layers.0.mlp.fc.bias': '4',
    });
    expect(rows.map(({ label }) => label)).toEqual([
      'encoder.layers…mlp.fc',
      'decoder.layers…mlp.fc',
      'mlp.fc.bias',
    ]);
  });

  it('has columns for numbers of layers only, also in names of adapters', () => {
    const layerOf = (name: string) => layerPlace(name).layer;
    expect(layerOf('time_embedding.linear_1.weight')).toBe(null);
    expect(layerOf('lora_te_text_model_encoder_layers_7_mlp_fc1.lora_down.weight')).toBe(7);
    expect(layerPlace('lora_unet_down_blocks_1_attentions_0_proj_in.alpha')).toEqual({
      ...{ layer: 1, role: 'lora_unet_down_blocks_*_attentions_*_proj_in.alpha' },
    });
  });

  it('has all parts in one order', () => {
    expect(PARTS.map(([part]) => partNumber(part))).toEqual([...PARTS.keys()]);
  });
});

describe('colours', () => {
  const two = poster({ 'h.0.w.weight': '2 × 2', 'h.1.w.weight': '2 × 2', 'h.2.w.weight': '2 × 2' });
  const range = (...values: number[]) => factorRange(two, cellValues(two, values));

  it('cover the least factor that is enough, so that noise stays neutral', () => {
    expect(range(1, 1.0025, 0.9975)).toBe(1.2);
    expect(range(1, 1.4, 0.9)).toBe(1.2);
    expect(range(1, 2.9, 2.8)).toBe(1.2);
    expect(range(100, 1, 1 / 100)).toBe(16);
    expect(range(Number.NaN, Number.NaN, Number.NaN)).toBe(1.2);
  });

  it('are as far from neutral for a factor up and down', () => {
    expect(relativeTo(3, 2, 6)).toBe(1);
    expect(relativeTo(3, 2, 1.5)).toBe(-1);
    expect(relativeTo(3, 2, 3)).toBe(0);
    expect(relativeTo(3, 2, 0)).toBe(-1);
    expect(relativeTo(0, 2, 1)).toBe(0);
    expect(relativeTo(3, 2, Number.NaN)).toBeNaN();
  });
});

describe('the strongest colour', () => {
  const limit = (...values: number[]) => colourLimit([Float64Array.from(values)]);

  it('is that of the greatest value, unless a few are far above all others', () => {
    expect(limit(0, 1, 1.5, 2, Number.NaN)).toEqual({ limit: 2, isClipped: false });
    const most = Array.from({ length: 40 }, (_, at) => 1 + at / 100);
    expect(limit(...most, 80)).toEqual({ limit: 1.38, isClipped: true });
    expect(limit(0, 0)).toEqual({ limit: 0, isClipped: false });
  });
});

describe('layers in words', () => {
  it('are single numbers and ranges', () => {
    expect(formatLayers([])).toBe('');
    expect(formatLayers([7])).toBe('7');
    expect(formatLayers([7, 2, 3])).toBe('2, 3 and 7');
    expect(formatLayers([29, 30, 31])).toBe('29–31');
    expect(formatLayers([1, 4, 5, 6, 7])).toBe('1 and 4–7');
  });

  it('are those with at least three quarters of the greatest mean', () => {
    const model = poster({ 'h.0.a.w': '2', 'h.1.a.w': '2', 'h.2.a.w': '2', 'h.2.b.w': '2' });
    const strongest = (...values: number[]) => strongestLayers(model, cellValues(model, values));
    expect(strongest(4, 3, 2.9, 2.9)).toEqual([0, 1]);
    expect(strongest(0, 0, 8, 0)).toEqual([2]);
    expect(strongest(0, 0, 0, 0)).toEqual([]);
  });
});
