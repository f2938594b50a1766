// Models for pictures: a small language model, one that was trained further, and an adapter. Their values are random,
// and the same at every run.

import { join } from 'node:path';
import { saveFile } from '../../lib/index.js';
import { bfloat16, randomOf, weights } from './random-weights.mjs';

const LAYERS = 16;
const HIDDEN = 192;
const EXPERTS = 4;

/** Names, shapes and usual sizes of values of one layer. */
const PARTS = [
  ['input_layernorm.weight', [HIDDEN], null],
  ['self_attn.q_proj.weight', [HIDDEN, HIDDEN], 0.03],
  ['self_attn.k_proj.weight', [HIDDEN / 4, HIDDEN], 0.035],
  ['self_attn.v_proj.weight', [HIDDEN / 4, HIDDEN], 0.02],
  ['self_attn.o_proj.weight', [HIDDEN, HIDDEN], 0.022],
  ['post_attention_layernorm.weight', [HIDDEN], null],
  ['mlp.experts', [EXPERTS, HIDDEN, HIDDEN], 0.025],
  ['mlp.router.weight', [EXPERTS, HIDDEN], 0.05],
  ['mlp.down_proj.weight', [HIDDEN, HIDDEN * 2], 0.02],
];

function* modelTensors(random) {
  yield ['model.embed_tokens.weight', [4096, HIDDEN], weights(random, [4096, HIDDEN], 0.04)];
  for (let layer = 0; layer < LAYERS; layer++) {
    for (const [name, shape, scale] of PARTS) {
      const size = scale === null ? 0.08 : scale * (1 + layer / LAYERS);
      const values = weights(random, shape, size);
      if (scale === null) for (let at = 0; at < values.length; at++) values[at] += 1;
      // One layer is dead, and one explodes.
      const factor =
        layer === 11 && name === 'mlp.down_proj.weight'
          ? 7
          : layer === 3 && name === 'self_attn.o_proj.weight'
            ? 0.05
            : 1;
      yield [`model.layers.${layer}.${name}`, shape, values.map((value) => value * factor)];
    }
  }
  yield ['model.norm.weight', [HIDDEN], weights(random, [HIDDEN], 0.1).map((value) => value + 1.5)];
  yield ['lm_head.weight', [4096, HIDDEN], weights(random, [4096, HIDDEN], 0.03)];
}

const METADATA = {
  format: 'pt',
  'modelspec.sai_model_spec': '1.0.0',
  'modelspec.architecture': 'writer-v1',
  'modelspec.title': 'Writer 135M',
  'modelspec.author': 'The Writer project',
  'modelspec.description': 'A small language model for pictures of documentation.',
  'modelspec.date': '2026-03-14',
  'modelspec.license': 'Apache-2.0',
  'modelspec.tags': 'text, small, example',
  ss_learning_rate: '0.0004',
  ss_num_epochs: '3',
  ss_training_started_at: '1773480000.0',
  ss_tag_frequency: '{"books": {"novel": 812, "letter": 240, "poem": 96}}',
};

/** Writes the models; gives their paths. */
export async function writeDemoModels(folder) {
  const paths = ['writer-135m', 'writer-135m-tuned', 'writer-lora'].map((name) =>
    join(folder, `${name}.safetensors`),
  );
  const [base, tuned] = [new Map(), new Map()];
  const change = randomOf(7);
  for (const [name, shape, values] of modelTensors(randomOf(1))) {
    const isNorm = shape.length === 1;
    const dtype = isNorm ? 'F32' : 'BF16';
    const data = (of) => (isNorm ? of : bfloat16(of));
    base.set(name, { dtype, shape, data: data(values) });
    const [, layer] = /layers\.(\d+)\.self_attn/.exec(name) ?? [];
    const share = layer === undefined ? (name.includes('mlp.down') ? 0.01 : 0) : 0.004 * layer;
    const moved = weights(change, shape, 0.03);
    tuned.set(name, {
      ...{ dtype, shape },
      data: data(values.map((value, at) => value + share * moved[at] * 3)),
    });
  }
  tuned.delete('lm_head.weight');
  tuned.set('score.weight', {
    dtype: 'F32',
    shape: [2, HIDDEN],
    data: weights(change, [2, HIDDEN], 0.1),
  });
  const adapter = new Map();
  for (let layer = 0; layer < LAYERS; layer++) {
    for (const part of ['q_proj', 'o_proj']) {
      const stem = `base_model.model.model.layers.${layer}.self_attn.${part}`;
      const down = weights(change, [8, HIDDEN], 0.05);
      const up = weights(change, [HIDDEN, 8], 0.01 * (1 + layer / 4));
      adapter.set(`${stem}.lora_A.weight`, { dtype: 'F32', shape: [8, HIDDEN], data: down });
      adapter.set(`${stem}.lora_B.weight`, { dtype: 'F32', shape: [HIDDEN, 8], data: up });
    }
  }
  await saveFile(paths[0], base, { metadata: METADATA });
  await saveFile(paths[1], tuned, { metadata: { format: 'pt' } });
  await saveFile(paths[2], adapter, { metadata: { format: 'pt' } });
  return paths;
}
