/** Small models that the tests of the command line look at. */
import type { Entry } from '../support/make-file.js';

/** Three layers, two of them alike. */
export const LAYERED: readonly Entry[] = [
  { name: 'model.embed_tokens.weight', dtype: 'BF16', shape: [32, 8] },
  ...[0, 1].flatMap((layer): Entry[] => [
    { name: `model.layers.${layer}.attn.q_proj.weight`, dtype: 'BF16', shape: [8, 8] },
    { name: `model.layers.${layer}.mlp.up_proj.weight`, dtype: 'BF16', shape: [16, 8] },
    { name: `model.layers.${layer}.norm.weight`, dtype: 'F32', shape: [8] },
  ]),
  { name: 'model.layers.2.mlp.up_proj.weight', dtype: 'BF16', shape: [16, 8] },
  { name: 'model.scale', dtype: 'U16', shape: [] },
  {
    name: 'vision_tower.vision_model.encoder.self_attention.out_proj.weight_scale_inv',
    dtype: 'F32',
    shape: [4, 4],
  },
  { name: 'lm_head.weight', dtype: 'BF16', shape: [32, 8] },
];
