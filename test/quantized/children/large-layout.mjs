// Lays out DeepSeek-V3 by its names and shapes in 163 sparse files, dequantizes it and reads one expert. Prints what was
// found, and the processor time of that, also as a multiple of `JSON.parse` of all headers. argv: the folder.
import {
  closeSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { dequantize, safeOpen } from '../../../lib/index.js';
import { measured, measuredAsync, withoutSlowPages } from '../../support/processor-cost.mjs';

const SHARDS = 163;
const HIDDEN = 7168;
const EXPERT_WIDTH = 2048;
const EXPERT = 'model.layers.42.mlp.experts.200.down_proj.weight';
const BYTES = { F8_E4M3: 1, BF16: 2, F32: 4 };

/** Name, dtype and shape of every tensor. */
function tensorsOfModel() {
  const found = [];
  const plain = (name, shape, dtype = 'BF16') => found.push({ name, dtype, shape });
  const quantized = (module, [rows, columns]) => {
    plain(`${module}.weight`, [rows, columns], 'F8_E4M3');
    const grid = [Math.ceil(rows / 128), Math.ceil(columns / 128)];
    plain(`${module}.weight_scale_inv`, grid, 'F32');
  };
  const gated = (module, width) => {
    quantized(`${module}.gate_proj`, [width, HIDDEN]);
    quantized(`${module}.up_proj`, [width, HIDDEN]);
    quantized(`${module}.down_proj`, [HIDDEN, width]);
  };
  const vocabulary = [129_280, HIDDEN];
  plain('model.embed_tokens.weight', vocabulary);
  for (let layer = 0; layer < 62; layer++) {
    const start = `model.layers.${layer}`;
    for (const norm of ['input', 'post_attention'])
      plain(`${start}.${norm}_layernorm.weight`, [HIDDEN]);
    quantized(`${start}.self_attn.q_a_proj`, [1536, HIDDEN]);
    plain(`${start}.self_attn.q_a_layernorm.weight`, [1536]);
    quantized(`${start}.self_attn.q_b_proj`, [24_576, 1536]);
    quantized(`${start}.self_attn.kv_a_proj_with_mqa`, [576, HIDDEN]);
    plain(`${start}.self_attn.kv_a_layernorm.weight`, [512]);
    quantized(`${start}.self_attn.kv_b_proj`, [32_768, 512]);
    quantized(`${start}.self_attn.o_proj`, [HIDDEN, 16_384]);
    if (layer < 3) {
      gated(`${start}.mlp`, 18_432);
      continue;
    }
    plain(`${start}.mlp.gate.weight`, [256, HIDDEN]);
    plain(`${start}.mlp.gate.e_score_correction_bias`, [256], 'F32');
    for (let i = 0; i < 256; i++) gated(`${start}.mlp.experts.${i}`, EXPERT_WIDTH);
    gated(`${start}.mlp.shared_experts`, EXPERT_WIDTH);
  }
  // The last layer predicts a further token.
  const last = 'model.layers.61';
  plain(`${last}.embed_tokens.weight`, vocabulary);
  for (const norm of ['enorm', 'hnorm', 'shared_head.norm'])
    plain(`${last}.${norm}.weight`, [HIDDEN]);
  plain(`${last}.eh_proj.weight`, [HIDDEN, 2 * HIDDEN]);
  plain(`${last}.shared_head.head.weight`, vocabulary);
  plain('model.norm.weight', [HIDDEN]);
  plain('lm_head.weight', vocabulary);
  return found.map((tensor) => {
    const count = tensor.shape.reduce((product, dimension) => product * dimension, 1);
    return { ...tensor, byteLength: BYTES[tensor.dtype] * count };
  });
}

/** What is stored of the expert: codes 1, 1.125 … 1.875 again and again, and scales 1, 2, 3 … */
const STORED = new Map([
  [EXPERT, Uint8Array.from({ length: HIDDEN * EXPERT_WIDTH }, (_, i) => 0x38 + (i % 8))],
  [`${EXPERT}_scale_inv`, Float32Array.from({ length: 56 * 16 }, (_, i) => i + 1)],
]);

function writeShard(path, tensors) {
  let at = 0;
  const entries = tensors.map(({ name, dtype, shape, byteLength }) => {
    at += byteLength;
    return [name, { dtype, shape, data_offsets: [at - byteLength, at] }];
  });
  const json = Buffer.from(JSON.stringify(Object.fromEntries(entries)));
  const start = Buffer.alloc(8);
  start.writeBigUInt64LE(BigInt(json.length));
  const fd = openSync(path, 'w');
  writeSync(fd, Buffer.concat([start, json]));
  ftruncateSync(fd, 8 + json.length + at);
  for (const [name, { data_offsets }] of entries) {
    const data = STORED.get(name);
    if (data !== undefined) writeSync(fd, data, 0, undefined, 8 + json.length + data_offsets[0]);
  }
  closeSync(fd);
}

function writeModel(folder) {
  const tensors = tensorsOfModel();
  const total = tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const shards = Array.from({ length: SHARDS }, () => []);
  let before = 0;
  for (const tensor of tensors) {
    shards[Math.floor((before / total) * SHARDS)].push(tensor);
    before += tensor.byteLength;
  }
  const weight_map = {};
  shards.forEach((own, i) => {
    const file = `model-${String(i + 1).padStart(5, '0')}-of-000163.safetensors`;
    writeShard(join(folder, file), own);
    for (const { name } of own) weight_map[name] = file;
  });
  const index = { metadata: { total_size: total }, weight_map };
  writeFileSync(join(folder, 'model.safetensors.index.json'), JSON.stringify(index));
  const quantization_config = { quant_method: 'fp8', fmt: 'e4m3', weight_block_size: [128, 128] };
  writeFileSync(join(folder, 'config.json'), JSON.stringify({ quantization_config }));
  return tensors.length;
}

function parseHeader(path) {
  const fd = openSync(path, 'r');
  const start = Buffer.alloc(8);
  readSync(fd, start);
  const json = Buffer.alloc(Number(start.readBigUInt64LE()));
  readSync(fd, json);
  closeSync(fd);
  return JSON.parse(json);
}

function parseHeaders() {
  const files = readdirSync(folder).filter((file) => file.endsWith('.safetensors'));
  return files.map((file) => parseHeader(join(folder, file))).length;
}

const [folder] = process.argv.slice(2);
const stored = writeModel(folder);
globalThis.gc();
const { result, pages, milliseconds } = await measuredAsync(async () => {
  const model = await dequantize(safeOpen(folder));
  return { model, values: model.getTensor(EXPERT).toFloat32() };
});
const { model, values } = result;

let wrong = 0;
for (let row = 0, i = 0; row < HIDDEN; row++) {
  for (let column = 0; column < EXPERT_WIDTH; column++, i++) {
    const scale = 1 + 16 * (row >> 7) + (column >> 7);
    if (values[i] !== (1 + (i % 8) / 8) * scale) wrong++;
  }
}
const quantized = model
  .keys()
  .filter((name) => model.info(name).quantization?.scheme === 'fp8').length;
const facts = { stored, logical: model.size, quantized, problems: model.problems.length, wrong };
// Slow pages of memory count for neither.
const millisecondsOf = (cost) => Math.max(1, withoutSlowPages(cost));
const taken = millisecondsOf({ milliseconds, pages });
const parsing = [1, 2, 3].map(() => millisecondsOf(measured(parseHeaders)));
console.log(JSON.stringify({ facts, milliseconds: taken, ratio: taken / Math.min(...parsing) }));
