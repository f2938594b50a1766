// Two models with the names, shapes and dtypes of DeepSeek-V3: 61 layers with 256 experts, FP8 with a scale for every
// block of 128 × 128, in 163 files. The files are sparse: of 688 GB each, what a sample reads and one whole tensor are
// on the disk, and all else is 0.

import { mkdir, open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { randomOf } from './random-weights.mjs';

const LAYERS = 61;
const DENSE = 3;
const EXPERTS = 256;
const SHARDS = 163;
const HIDDEN = 7168;
const BLOCK = 128;

/** Experts with values: a sample reads these. */
const SAMPLED = 16;

/** The tensor with all its values. */
const WHOLE = 'model.layers.20.self_attn.kv_a_proj_with_mqa.weight';

function mlp(name, size) {
  return [
    [`${name}.gate_proj`, size, HIDDEN],
    [`${name}.up_proj`, size, HIDDEN],
    [`${name}.down_proj`, HIDDEN, size],
  ];
}

/** Quantized weights of a layer, by name and dimensions. */
function weightsOf(layer) {
  const name = `model.layers.${layer}`;
  const attention = `${name}.self_attn`;
  return [
    [`${attention}.q_a_proj`, 1536, HIDDEN],
    [`${attention}.q_b_proj`, 24576, 1536],
    [`${attention}.kv_a_proj_with_mqa`, 576, HIDDEN],
    [`${attention}.kv_b_proj`, 32768, 512],
    [`${attention}.o_proj`, HIDDEN, 16384],
    ...(layer < DENSE
      ? mlp(`${name}.mlp`, 18432)
      : [
          ...mlp(`${name}.mlp.shared_experts`, 2048),
          ...Array.from({ length: EXPERTS }, (_, at) =>
            mlp(`${name}.mlp.experts.${at}`, 2048),
          ).flat(),
        ]),
  ];
}

/** All tensors: `level` is the typical magnitude of their values, null for those that stay 0. */
function* tensors() {
  const one = (name, dtype, ...shape) => ({ name, dtype, shape });
  yield { ...one('model.embed_tokens.weight', 'BF16', 129280, HIDDEN), level: 0.05 };
  for (let layer = 0; layer < LAYERS; layer++) {
    const name = `model.layers.${layer}`;
    const depth = 1 + layer / LAYERS;
    yield { ...one(`${name}.input_layernorm.weight`, 'BF16', HIDDEN), level: 0.3 * depth };
    for (const [weight, rows, columns] of weightsOf(layer)) {
      const [, expert] = /experts\.(\d+)\./.exec(weight) ?? [];
      const isZero = expert !== undefined && Number(expert) % (EXPERTS / SAMPLED) !== 0;
      const level = isZero ? null : 0.0004 * depth;
      const blocks = [rows, columns].map((size) => Math.ceil(size / BLOCK));
      yield { ...one(`${weight}.weight`, 'F8_E4M3', rows, columns), level: isZero ? null : 1 };
      yield { ...one(`${weight}.weight_scale_inv`, 'F32', ...blocks), level };
    }
    if (layer >= DENSE) {
      yield { ...one(`${name}.mlp.gate.weight`, 'BF16', EXPERTS, HIDDEN), level: 0.04 * depth };
      yield { ...one(`${name}.mlp.gate.e_score_correction_bias`, 'F32', EXPERTS), level: 2 };
    }
    yield { ...one(`${name}.self_attn.kv_a_layernorm.weight`, 'BF16', 512), level: 0.9 };
    yield { ...one(`${name}.self_attn.q_a_layernorm.weight`, 'BF16', 1536), level: 0.6 };
    yield { ...one(`${name}.post_attention_layernorm.weight`, 'BF16', HIDDEN), level: 0.2 * depth };
  }
  yield { ...one('model.norm.weight', 'BF16', HIDDEN), level: 3 };
  yield { ...one('lm_head.weight', 'BF16', 129280, HIDDEN), level: 0.03 };
}

const BYTES = { F8_E4M3: 1, BF16: 2, F32: 4 };

/** A byte of F8_E4M3, rounded down; of numbers from 2⁻⁶ to 448. */
function float8(value) {
  const size = Math.abs(value);
  const exponent = Math.max(-6, Math.floor(Math.log2(size || 2 ** -9)));
  const fraction = Math.min(7, Math.max(0, Math.floor((size / 2 ** exponent - 1) * 8)));
  return (value < 0 ? 0x80 : 0) | ((exponent + 7) << 3) | fraction;
}

/** Bytes of `count` random values around 0; of norms around their level, and of scales near it. */
function bytesOf({ name, dtype, shape, level }, count, random) {
  const normal = () =>
    Math.sqrt(-2 * Math.log(random() + 1e-12)) * Math.cos(2 * Math.PI * random());
  if (dtype === 'F8_E4M3') return Uint8Array.from({ length: count }, () => float8(normal() * 50));
  const isScale = name.endsWith('_inv');
  const isAround = isScale || shape.length === 1;
  const values = Float32Array.from({ length: count }, () =>
    isAround ? level * (1 + 0.1 * normal()) : level * normal(),
  );
  if (dtype === 'F32') return new Uint8Array(values.buffer);
  const halves = Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16);
  return new Uint8Array(halves.buffer);
}

/** Values in the middle of a matrix that are not 0: more than a sample reads. */
const MIDDLE = 8192;

/** Writes the rows in the middle of a matrix, or all of a short tensor. */
async function writeValues(file, begin, tensor, random) {
  const { name, dtype, shape } = tensor;
  const columns = shape.at(-1);
  const rows = shape.length === 1 ? 1 : shape[0];
  const isAll = name === WHOLE || dtype === 'F32' || rows === 1;
  const count = isAll ? rows : Math.ceil(MIDDLE / columns);
  const first = Math.floor((rows - count) / 2);
  const bytes = bytesOf(tensor, count * columns, random);
  await file.write(bytes, 0, bytes.length, begin + first * columns * BYTES[dtype]);
}

function numbered(shard) {
  const number = (value) => String(value).padStart(6, '0');
  return `model-${number(shard + 1)}-of-${number(SHARDS)}.safetensors`;
}

async function writeShard(path, list, random) {
  let end = 0;
  const header = { __metadata__: { format: 'pt' } };
  const placed = list.map((tensor) => {
    const { name, dtype, shape } = tensor;
    const begin = end;
    end += BYTES[dtype] * shape.reduce((product, size) => product * size, 1);
    header[name] = { dtype, shape, data_offsets: [begin, end] };
    return { tensor, begin };
  });
  const text = JSON.stringify(header);
  const padded = Buffer.from(text.padEnd(Math.ceil(text.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(padded.length));
  const file = await open(path, 'w');
  try {
    const dataStart = 8 + padded.length;
    await file.write(Buffer.concat([length, padded]), 0, dataStart, 0);
    await file.truncate(dataStart + end);
    for (const { tensor, begin } of placed) {
      if (tensor.level !== null) await writeValues(file, dataStart + begin, tensor, random(tensor));
    }
  } finally {
    await file.close();
  }
}

/** `seedOf` returns the seed of the values of a tensor. */
async function writeMixture(path, seedOf) {
  await mkdir(path);
  const all = [...tensors()];
  const sizeOf = ({ dtype, shape }) =>
    BYTES[dtype] * shape.reduce((product, size) => product * size, 1);
  const total = all.reduce((sum, tensor) => sum + sizeOf(tensor), 0);
  const shards = Array.from({ length: SHARDS }, () => []);
  const map = {};
  let begin = 0;
  for (const tensor of all) {
    const shard = Math.floor((begin / total) * SHARDS);
    shards[shard].push(tensor);
    map[tensor.name] = numbered(shard);
    begin += sizeOf(tensor);
  }
  for (const [at, list] of shards.entries()) {
    await writeShard(join(path, numbered(at)), list, (tensor) => randomOf(seedOf(tensor.name)));
  }
  await writeFile(
    join(path, 'model.safetensors.index.json'),
    JSON.stringify({ metadata: { total_size: total }, weight_map: map }),
  );
  await writeFile(
    join(path, 'config.json'),
    JSON.stringify({
      ...{ architectures: ['DeepseekV3ForCausalLM'], model_type: 'deepseek_v3' },
      ...{ num_hidden_layers: LAYERS, hidden_size: HIDDEN, intermediate_size: 18432 },
      ...{ num_attention_heads: 128, num_key_value_heads: 128, vocab_size: 129280 },
      ...{ n_routed_experts: EXPERTS, n_shared_experts: 1, num_experts_per_tok: 8 },
      ...{ moe_intermediate_size: 2048, max_position_embeddings: 163840 },
      quantization_config: {
        ...{ quant_method: 'fp8', fmt: 'e4m3', activation_scheme: 'dynamic' },
        weight_block_size: [BLOCK, BLOCK],
      },
    }),
  );
  return path;
}

/** Writes a model, and one that was trained further in layers 18 to 24; returns their paths. */
export async function writeMixtures(folder) {
  const hashOf = (name) =>
    Array.from(name).reduce((hash, letter) => (hash * 31 + letter.charCodeAt(0)) | 0, 9);
  return [
    await writeMixture(join(folder, 'DeepSeek-V3-Base'), hashOf),
    await writeMixture(join(folder, 'DeepSeek-V3'), (name) => {
      const layer = Number(/layers\.(\d+)\./.exec(name)?.[1]);
      return hashOf(name) + (layer >= 18 && layer <= 24 && name.endsWith('_inv') ? 1 : 0);
    }),
  ];
}
