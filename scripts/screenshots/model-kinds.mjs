// Small models of the kinds that people open, with the names, dtypes and configurations of real ones: a GPT-2, a
// Diffusers pipeline, and an adapter and two fine-tunes of a base. Their values are random, and the same at every run.

import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { saveFile } from '../../lib/index.js';
import { bfloat16, randomOf, weights } from './random-weights.mjs';
import { writeMixtures } from './sparse-mixture.mjs';

/** Writes a folder: JSON files by name, and the tensors of one file. Returns its path. */
async function writeModel(path, name, tensors, configs = {}) {
  await mkdir(path, { recursive: true });
  for (const [file, config] of Object.entries(configs)) {
    await writeFile(join(path, file), JSON.stringify(config, null, 2));
  }
  if (tensors !== null) {
    await saveFile(join(path, name), new Map(tensors), { metadata: { format: 'pt' } });
  }
  return path;
}

const GPT2 = { layers: 12, hidden: 192, vocabulary: 8000, context: 256 };

/** GPT-2, whose norms are fresh; `change` returns how much the values of a layer are changed. */
function* gpt2Tensors(change) {
  const { layers, hidden, vocabulary, context } = GPT2;
  const [random, moved] = [randomOf(2), randomOf(3)];
  const filled = (shape, value) => [
    ...[shape, new Float32Array(shape.reduce((product, size) => product * size)).fill(value)],
  ];
  const mask = new Float32Array(context * context);
  for (let row = 0; row < context; row++) mask.fill(1, row * context, row * context + row + 1);
  const of = (layer, shape, scale) => {
    const share = change(layer);
    const values = weights(random, shape, scale);
    if (share === 0) return [shape, values];
    const other = weights(moved, shape, scale * share);
    return [shape, values.map((value, at) => value + other[at])];
  };
  const tensors = function* () {
    yield ['wte.weight', ...of(null, [vocabulary, hidden], 0.14)];
    yield ['wpe.weight', ...of(null, [context, hidden], 0.12)];
    for (let layer = 0; layer < layers; layer++) {
      const name = `h.${layer}`;
      const depth = 1 + layer / layers;
      yield [`${name}.ln_1.weight`, ...filled([hidden], 1)];
      yield [`${name}.ln_1.bias`, ...filled([hidden], 0)];
      yield [`${name}.attn.bias`, [1, 1, context, context], mask];
      yield [`${name}.attn.c_attn.weight`, ...of(layer, [hidden, 3 * hidden], 0.14 / depth)];
      yield [`${name}.attn.c_attn.bias`, ...of(layer, [3 * hidden], 0.2)];
      yield [`${name}.attn.c_proj.weight`, ...of(layer, [hidden, hidden], 0.09 * depth)];
      yield [`${name}.attn.c_proj.bias`, ...of(layer, [hidden], 0.1)];
      yield [`${name}.ln_2.weight`, ...filled([hidden], 1)];
      yield [`${name}.ln_2.bias`, ...filled([hidden], 0)];
      yield [`${name}.mlp.c_fc.weight`, ...of(layer, [hidden, 4 * hidden], 0.13)];
      yield [`${name}.mlp.c_fc.bias`, ...of(layer, [4 * hidden], 0.06)];
      yield [`${name}.mlp.c_proj.weight`, ...of(layer, [4 * hidden, hidden], 0.08 * depth)];
      yield [`${name}.mlp.c_proj.bias`, ...of(layer, [hidden], 0.07)];
    }
    yield ['ln_f.weight', ...filled([hidden], 1)];
    yield ['ln_f.bias', ...filled([hidden], 0)];
  };
  for (const [name, shape, data] of tensors()) yield [name, { dtype: 'F32', shape, data }];
}

async function writeGpt2(folder) {
  const { layers, hidden, vocabulary, context } = GPT2;
  const config = {
    ...{ architectures: ['GPT2LMHeadModel'], model_type: 'gpt2', n_layer: layers, n_head: 12 },
    ...{ n_embd: hidden, n_positions: context, vocab_size: vocabulary },
  };
  const write = (name, change) =>
    writeModel(join(folder, name), 'model.safetensors', gpt2Tensors(change), {
      'config.json': config,
    });
  return [
    await write('gpt2', () => 0),
    await write('gpt2-poems', (layer) => (layer === null || layer < 8 ? 0 : 0.02 * (layer - 7))),
  ];
}

const LLAMA = { layers: 16, hidden: 192, vocabulary: 4096 };

/**
 * A model like Llama. `change` returns how much the values of a layer are changed; `broken` is a tensor with a value
 * that is NaN.
 */
function* llamaTensors(change, broken) {
  const { layers, hidden, vocabulary } = LLAMA;
  const [random, moved] = [randomOf(4), randomOf(5)];
  const of = (layer, name, shape, scale, middle = 0) => {
    const values = weights(random, shape, scale);
    const other = weights(moved, shape, scale * change(layer));
    const data = bfloat16(values.map((value, at) => middle + value + other[at]));
    if (name === broken) data[5 * shape.at(-1) + 7] = 0x7fc0;
    return [name, { dtype: 'BF16', shape, data }];
  };
  yield of(null, 'model.embed_tokens.weight', [vocabulary, hidden], 0.04);
  for (let layer = 0; layer < layers; layer++) {
    const name = `model.layers.${layer}`;
    const depth = 1 + layer / layers;
    yield of(null, `${name}.input_layernorm.weight`, [hidden], 0.05, 1);
    yield of(layer, `${name}.self_attn.q_proj.weight`, [hidden, hidden], 0.03 * depth);
    yield of(layer, `${name}.self_attn.k_proj.weight`, [hidden / 4, hidden], 0.04);
    yield of(layer, `${name}.self_attn.v_proj.weight`, [hidden / 4, hidden], 0.02 * depth);
    yield of(layer, `${name}.self_attn.o_proj.weight`, [hidden, hidden], 0.02);
    yield of(null, `${name}.post_attention_layernorm.weight`, [hidden], 0.05, 1);
    yield of(layer, `${name}.mlp.gate_proj.weight`, [3 * hidden, hidden], 0.025);
    yield of(layer, `${name}.mlp.up_proj.weight`, [3 * hidden, hidden], 0.024);
    yield of(layer, `${name}.mlp.down_proj.weight`, [hidden, 3 * hidden], 0.02 * depth);
  }
  yield of(null, 'model.norm.weight', [hidden], 0.1, 1.5);
  yield of(null, 'lm_head.weight', [vocabulary, hidden], 0.03);
}

function writeLlama(path, change = () => 0, broken = '') {
  const { layers, hidden, vocabulary } = LLAMA;
  const config = {
    ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', num_hidden_layers: layers },
    ...{ hidden_size: hidden, intermediate_size: 3 * hidden, vocab_size: vocabulary },
    ...{ num_attention_heads: 12, num_key_value_heads: 3, max_position_embeddings: 8192 },
  };
  return writeModel(path, 'model.safetensors', llamaTensors(change, broken), {
    'config.json': config,
  });
}

/** A PEFT adapter for the queries and values of layers 2 to 11. */
function* adapterTensors() {
  const random = randomOf(6);
  const { hidden } = LLAMA;
  const of = (name, shape, scale) => {
    const data = weights(random, shape, scale);
    return [`base_model.model.model.layers.${name}.weight`, { dtype: 'F32', shape, data }];
  };
  for (let layer = 2; layer < 12; layer++) {
    for (const [part, rows] of Object.entries({ q_proj: hidden, v_proj: hidden / 4 })) {
      const name = `${layer}.self_attn.${part}`;
      yield of(`${name}.lora_A`, [8, hidden], 0.05);
      yield of(`${name}.lora_B`, [rows, 8], 0.004 * layer);
    }
  }
}

async function writeAdapter(folder) {
  const config = {
    ...{ peft_type: 'LORA', r: 8, lora_alpha: 16, target_modules: ['q_proj', 'v_proj'] },
    ...{ base_model_name_or_path: 'writer/writer-base', use_rslora: false },
  };
  const adapter = join(folder, 'writer-sonnets-lora');
  const name = 'adapter_model.safetensors';
  return [
    await writeLlama(join(folder, 'writer-base')),
    await writeModel(adapter, name, adapterTensors(), { 'adapter_config.json': config }),
  ];
}

async function writeFineTunes(folder) {
  const change = (from, to, share) => (layer) =>
    layer !== null && layer >= from && layer <= to ? share * (1 + (layer - from) / 4) : 0;
  const broken = 'model.layers.7.mlp.down_proj.weight';
  return [
    await writeLlama(join(folder, 'writer-base')),
    await writeLlama(join(folder, 'writer-letters'), change(4, 7, 0.05)),
    await writeLlama(join(folder, 'writer-novels'), change(6, 12, 0.03), broken),
  ];
}

/** Tensors of a list of names, shapes and sizes of values, in F32. */
function* tensorsOf(random, list, change = () => 0) {
  for (const [name, shape, scale] of list) {
    const isVector = shape.length === 1;
    const isBias = name.endsWith('.bias');
    const share = 1 + change(name);
    const data = weights(random, shape, scale).map(
      (value) => value * share + (isVector && !isBias ? 1 : 0),
    );
    yield [name, { dtype: 'F32', shape, data }];
  }
}

function linear(name, rows, columns, scale, hasBias = true) {
  const weight = [`${name}.weight`, [rows, columns].flat(), scale];
  return hasBias ? [weight, [`${name}.bias`, [rows], 0.02]] : [weight];
}

const conv = (name, to, from, scale) => linear(name, to, [from, 3, 3], scale);
const norm = (name, size) => [
  [`${name}.weight`, [size], 0.05],
  [`${name}.bias`, [size], 0.03],
];

function resnet(name, from, to, isTimed = true) {
  return [
    ...norm(`${name}.norm1`, from),
    ...conv(`${name}.conv1`, to, from, 0.04),
    ...(isTimed ? linear(`${name}.time_emb_proj`, to, 128, 0.03) : []),
    ...norm(`${name}.norm2`, to),
    ...conv(`${name}.conv2`, to, to, 0.035),
    ...(from === to ? [] : linear(`${name}.conv_shortcut`, to, [from, 1, 1], 0.06)),
  ];
}

function attentionBlock(name, size) {
  const block = `${name}.transformer_blocks.0`;
  const attention = (part, from) => [
    ...linear(`${block}.${part}.to_q`, size, size, 0.05, false),
    ...linear(`${block}.${part}.to_k`, size, from, 0.055, false),
    ...linear(`${block}.${part}.to_v`, size, from, 0.03, false),
    ...linear(`${block}.${part}.to_out.0`, size, size, 0.03),
  ];
  return [
    ...norm(`${name}.norm`, size),
    ...linear(`${name}.proj_in`, size, [size, 1, 1], 0.05),
    ...norm(`${block}.norm1`, size),
    ...attention('attn1', size),
    ...norm(`${block}.norm2`, size),
    ...attention('attn2', 96),
    ...norm(`${block}.norm3`, size),
    ...linear(`${block}.ff.net.0.proj`, 8 * size, size, 0.04),
    ...linear(`${block}.ff.net.2`, size, 4 * size, 0.03),
    ...linear(`${name}.proj_out`, size, [size, 1, 1], 0.04),
  ];
}

const UNET = [32, 64, 96, 96];

function unetParts() {
  const first = UNET[0];
  const parts = [
    ...conv('conv_in', first, 4, 0.1),
    ...linear('time_embedding.linear_1', 128, first, 0.06),
    ...linear('time_embedding.linear_2', 128, 128, 0.05),
  ];
  for (const [block, size] of UNET.entries()) {
    const name = `down_blocks.${block}`;
    const isLast = block === UNET.length - 1;
    for (let at = 0; at < 2; at++) {
      const from = at === 0 ? (UNET[block - 1] ?? first) : size;
      if (!isLast) parts.push(...attentionBlock(`${name}.attentions.${at}`, size));
      parts.push(...resnet(`${name}.resnets.${at}`, from, size));
    }
    if (!isLast) parts.push(...conv(`${name}.downsamplers.0.conv`, size, size, 0.04));
  }
  const deep = UNET.at(-1);
  parts.push(...attentionBlock('mid_block.attentions.0', deep));
  for (const at of [0, 1]) parts.push(...resnet(`mid_block.resnets.${at}`, deep, deep));
  for (const [block, size] of UNET.toReversed().entries()) {
    const name = `up_blocks.${block}`;
    for (let at = 0; at < 3; at++) {
      if (block > 0) parts.push(...attentionBlock(`${name}.attentions.${at}`, size));
      parts.push(...resnet(`${name}.resnets.${at}`, 2 * size, size));
    }
    if (block < 3) parts.push(...conv(`${name}.upsamplers.0.conv`, size, size, 0.04));
  }
  return [...parts, ...norm('conv_norm_out', first), ...conv('conv_out', 4, first, 0.03)];
}

function vaeParts() {
  const sizes = [16, 32, 64];
  const half = (name, order, ends) => [
    ...conv(`${name}.conv_in`, order[0], ends[0], 0.1),
    ...order.flatMap((size, block) =>
      [0, 1].flatMap((at) =>
        resnet(
          `${name}.${name === 'encoder' ? 'down' : 'up'}_blocks.${block}.resnets.${at}`,
          ...[at === 0 ? (order[block - 1] ?? size) : size, size, false],
        ),
      ),
    ),
    ...norm(`${name}.conv_norm_out`, order.at(-1)),
    ...conv(`${name}.conv_out`, ends[1], order.at(-1), 0.05),
  ];
  return [
    ...half('encoder', sizes, [3, 8]),
    ...linear('quant_conv', 8, [8, 1, 1], 0.3),
    ...linear('post_quant_conv', 4, [4, 1, 1], 0.3),
    ...half('decoder', sizes.toReversed(), [4, 3]),
  ];
}

function textEncoderParts() {
  const size = 96;
  const layer = (name) => [
    ...['k_proj', 'v_proj', 'q_proj', 'out_proj'].flatMap((part) =>
      linear(`${name}.self_attn.${part}`, size, size, part === 'k_proj' ? 0.06 : 0.04),
    ),
    ...norm(`${name}.layer_norm1`, size),
    ...linear(`${name}.mlp.fc1`, 4 * size, size, 0.03),
    ...linear(`${name}.mlp.fc2`, size, 4 * size, 0.025),
    ...norm(`${name}.layer_norm2`, size),
  ];
  return [
    ['text_model.embeddings.token_embedding.weight', [8000, size], 0.02],
    ['text_model.embeddings.position_embedding.weight', [77, size], 0.01],
    ...Array.from({ length: 12 }, (_, at) => layer(`text_model.encoder.layers.${at}`)).flat(),
    ...norm('text_model.final_layer_norm', size),
  ];
}

async function writePipeline(path, seed, change) {
  const random = randomOf(seed);
  await writeModel(path, '', null, {
    'model_index.json': {
      ...{ _class_name: 'StableDiffusionPipeline', _diffusers_version: '0.35.1' },
      scheduler: ['diffusers', 'PNDMScheduler'],
      text_encoder: ['transformers', 'CLIPTextModel'],
      tokenizer: ['transformers', 'CLIPTokenizer'],
      unet: ['diffusers', 'UNet2DConditionModel'],
      vae: ['diffusers', 'AutoencoderKL'],
    },
  });
  await writeModel(join(path, 'scheduler'), '', null, {
    'scheduler_config.json': { _class_name: 'PNDMScheduler', num_train_timesteps: 1000 },
  });
  await writeModel(join(path, 'tokenizer'), '', null, {
    'tokenizer_config.json': { tokenizer_class: 'CLIPTokenizer', model_max_length: 77 },
  });
  const weightsName = 'diffusion_pytorch_model.safetensors';
  await writeModel(join(path, 'unet'), weightsName, tensorsOf(random, unetParts(), change), {
    'config.json': { _class_name: 'UNet2DConditionModel', block_out_channels: UNET },
  });
  await writeModel(join(path, 'vae'), weightsName, tensorsOf(random, vaeParts()), {
    'config.json': { _class_name: 'AutoencoderKL', latent_channels: 4 },
  });
  const encoder = tensorsOf(random, textEncoderParts());
  await writeModel(join(path, 'text_encoder'), 'model.safetensors', encoder, {
    'config.json': {
      ...{ architectures: ['CLIPTextModel'], num_hidden_layers: 12, hidden_size: 96 },
      ...{ num_attention_heads: 8, vocab_size: 8000, max_position_embeddings: 77 },
    },
  });
  return path;
}

async function writePipelines(folder) {
  const change = (name) => (/attn2\.to_[kv]/.test(name) ? 0.08 : 0);
  return [
    await writePipeline(join(folder, 'painter'), 8, () => 0),
    await writePipeline(join(folder, 'painter-ink'), 8, change),
  ];
}

/**
 * The kinds by name: how each is written into a folder, which returns the paths to serve, and what is shown of it: the
 * models that are open, a tensor, a search, and an address that is wrong.
 */
export const KINDS = {
  gpt2: {
    write: writeGpt2,
    models: { open: 'gpt2', with: 'gpt2-poems' },
    tensor: 'h.11.attn.c_attn.weight',
    find: 'h.1 weight',
    wrong: { tensor: 'h.11.attn.c_att.weight' },
  },
  deepseek: {
    write: writeMixtures,
    models: { open: 'DeepSeek-V3-Base', with: 'DeepSeek-V3' },
    tensor: 'model.layers.20.self_attn.kv_a_proj_with_mqa.weight',
    find: 'layers.20 experts.1 up_proj',
    wrong: { tensor: 'model.layers.20.mlp.experts.256.up_proj.weight' },
  },
  diffusers: {
    write: writePipelines,
    models: { open: 'painter/unet', with: 'painter-ink/unet' },
    tensor: 'up_blocks.1.attentions.0.transformer_blocks.0.attn2.to_k.weight',
    find: 'attn2 to_k',
    wrong: { tensor: 'mid_block.resnets.1.conv1.weight', slice: '0:4, 900' },
  },
  lora: {
    write: writeAdapter,
    models: { open: 'writer-base', with: 'writer-sonnets-lora' },
    tensor: 'model.layers.11.self_attn.q_proj.weight',
    find: 'layers.1 q_proj',
    wrong: { tensor: 'base_model.model.model.layers.5.self_attn.q_proj.lora_A.weight' },
  },
  tunes: {
    write: writeFineTunes,
    models: { open: 'writer-letters', with: 'writer-novels', base: 'writer-base' },
    tensor: 'model.layers.7.mlp.down_proj.weight',
    find: '7 proj',
    wrong: { open: 'writer-poems' },
  },
};
