/** An adapter merged into a model, and two models merged, against PEFT and the steps of mergekit. */
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { saveFile } from 'safetensors-mmap';
import { pick } from '../contenders.mjs';
import { formatByteSize } from '../figures.mjs';
import { runChild } from '../processes.mjs';

const ADAPTER_WAYS = pick('mergeAdapter mergePeft');
const MODEL_WAYS = pick('mergeLinear mergeLinearSteps mergeTies mergeTiesSteps mergeDare');

const RANK = 16;
/** Bytes of a layer of the full width. */
const LAYER_BYTES = 0.09e9;

/** Weights around zero, as BF16; every so many they are the same. */
const PATTERN = (() => {
  let next = 1;
  return Uint16Array.from({ length: 2 ** 20 }, () => {
    next = (Math.imul(next, 1103515245) + 12345) | 0;
    return 0x3c00 | ((next >>> 16) & 0x80ff);
  });
})();

function weights(count, seed) {
  const values = new Uint16Array(count);
  for (let at = 0, from = seed; at < count; from = 0) {
    const part = PATTERN.subarray(from, from + count - at);
    values.set(part, at);
    at += part.length;
  }
  return values;
}

const factors = (count, seed) =>
  Float32Array.from(weights(count, seed), (bits) => (bits & 0x8000 ? -1 : 1) * (bits & 255) * 1e-4);

/** Names and shapes of a Llama with so many layers. */
function shapesOf({ hidden, inner, layers, vocabulary }) {
  const ofLayer = {
    'self_attn.q_proj': [hidden, hidden],
    'self_attn.k_proj': [hidden / 8, hidden],
    'self_attn.v_proj': [hidden / 8, hidden],
    'self_attn.o_proj': [hidden, hidden],
    'mlp.gate_proj': [inner, hidden],
    'mlp.up_proj': [inner, hidden],
    'mlp.down_proj': [hidden, inner],
  };
  const linear = new Map();
  const others = new Map([
    ['model.embed_tokens', [vocabulary, hidden]],
    ['lm_head', [vocabulary, hidden]],
    ['model.norm', [hidden]],
  ]);
  for (let layer = 0; layer < layers; layer++) {
    for (const [name, shape] of Object.entries(ofLayer)) {
      linear.set(`model.layers.${layer}.${name}`, shape);
    }
    for (const name of ['input_layernorm', 'post_attention_layernorm']) {
      others.set(`model.layers.${layer}.${name}`, [hidden]);
    }
  }
  return { linear, others };
}

async function writeModel(folder, dimensions, seed) {
  const { hidden, inner, layers, vocabulary } = dimensions;
  const { linear, others } = shapesOf(dimensions);
  const tensors = Array.from([...linear, ...others], ([name, shape], i) => {
    const count = shape.reduce((product, size) => product * size, 1);
    const data = () => weights(count, seed + i);
    return [`${name}.weight`, { dtype: 'BF16', shape, data }];
  });
  mkdirSync(folder);
  await saveFile(join(folder, 'model.safetensors'), new Map(tensors), { durable: false });
  const config = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    dtype: 'bfloat16',
    hidden_size: hidden,
    intermediate_size: inner,
    num_hidden_layers: layers,
    num_attention_heads: 32,
    num_key_value_heads: 4,
    vocab_size: vocabulary,
    tie_word_embeddings: false,
  };
  writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
}

async function writeAdapter(folder, { linear }) {
  const tensors = Array.from(linear, ([name, [out, columns]], i) => {
    const key = `base_model.model.${name}.lora_`;
    return [
      [
        `${key}A.weight`,
        { dtype: 'F32', shape: [RANK, columns], data: factors(RANK * columns, i + 1) },
      ],
      [`${key}B.weight`, { dtype: 'F32', shape: [out, RANK], data: factors(out * RANK, i + 7) }],
    ];
  });
  mkdirSync(folder);
  await saveFile(join(folder, 'adapter_model.safetensors'), new Map(tensors.flat()));
  const targets = new Set(
    Array.from(linear.keys(), (name) => name.slice(name.lastIndexOf('.') + 1)),
  );
  const config = { peft_type: 'LORA', task_type: 'CAUSAL_LM', r: RANK, lora_alpha: 2 * RANK };
  const text = JSON.stringify({ ...config, target_modules: [...targets] });
  writeFileSync(join(folder, 'adapter_config.json'), text);
}

export const merging = {
  name: 'merge',
  prepare: async ({ folder, path, size }) => {
    const layers = Math.max(1, Math.round(statSync(path).size / LAYER_BYTES) - 3);
    const full = { hidden: 2048, inner: 5632, layers, vocabulary: 32_000 };
    const dimensions = size(full, { hidden: 64, inner: 128, layers: 1, vocabulary: 64 });
    await writeModel(join(folder, 'base'), dimensions, 1);
    await writeModel(join(folder, 'other'), dimensions, 1000);
    await writeModel(join(folder, 'third'), dimensions, 2000);
    await writeAdapter(join(folder, 'adapter'), shapesOf(dimensions));
    const source = join(folder, 'base/model.safetensors');
    return { source, byteLength: statSync(source).size };
  },
  legs: ({ folder, rounds, signal }, { source }) => {
    const target = join(folder, 'merged');
    const run = async (command) => {
      try {
        return await runChild(command, signal);
      } finally {
        await rm(target, { recursive: true, force: true });
      }
    };
    const leg = { path: source, args: [folder, target], cache: 'warm', rounds, run };
    return {
      adapter: { ...leg, contenders: ADAPTER_WAYS },
      models: { ...leg, contenders: MODEL_WAYS },
    };
  },
  values: (_, __, { byteLength }) => ({
    size: formatByteSize(byteLength),
    bytesPerSecond: byteLength * 1e3,
  }),
  page: `
    ## Merging into a new checkpoint, durable
    | way | time = elapsed | fastest and slowest = span(elapsed) | per second = $bytesPerSecond / elapsed MB | private memory = max(privateMemory) +MB |
    - a model of {size} in BF16: an adapter of rank ${RANK} for all linear layers; two models, linear, and half of their changes
    - rivals: loaded, merged and saved by PEFT, and the steps of mergekit in NumPy, both with fsync
    - {reasons}
    > adapter of rank ${RANK}: time of PEFT to load, merge and save | at most 1 × | mergeAdapter.elapsed / mergePeft.elapsed
    > TIES of two models: time of mergekit's steps in NumPy | at most 0.1 × | mergeTies.elapsed / mergeTiesSteps.elapsed
    > merging an adapter: private memory | at most 150 MB | mergeAdapter.max(privateMemory)`,
};
