/** The files of the trials: which tensors they have, and a small writer of them, pseudo-random weights or holes. */
import { mkdir, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** Bytes of an element; the dtypes of FP8 have one. */
const ELEMENT_BYTES = { F32: 4, BF16: 2, F16: 2 };

/** A tensor of a file to be written. */
export function tensor(name, dtype, ...shape) {
  const byteLength = shape.reduce((product, length) => product * length, ELEMENT_BYTES[dtype] ?? 1);
  return { name, dtype, shape, byteLength };
}

/** Smallest size that keeps every matrix of the model larger than a few rows. */
export const MIN_MODEL_BYTES = 1_000_000;

const LAYERS = 16;
const FULL_HIDDEN = 2048;
const FULL_VOCABULARY = 128_256;

/** Bytes of all data of tensors. */
export const dataByteLength = (tensors) =>
  tensors.reduce((sum, { byteLength }) => sum + byteLength, 0);

/** The shapes of a layer's tensors, in multiples of the hidden size. */
const LAYER = {
  'self_attn.q_proj': [1, 1],
  'self_attn.k_proj': [1 / 4, 1],
  'self_attn.v_proj': [1 / 4, 1],
  'self_attn.o_proj': [1, 1],
  'mlp.gate_proj': [4, 1],
  'mlp.up_proj': [4, 1],
  'mlp.down_proj': [1, 4],
  input_layernorm: [1],
  post_attention_layernorm: [1],
};

/** The tensors between embedding and output matrix, in the order of the modules. */
function layersOf(hidden, layers = LAYERS) {
  const bfloat16 = (name, shape) =>
    tensor(`model.${name}.weight`, 'BF16', ...shape.map((factor) => factor * hidden));
  const layerOf = (_, index) =>
    Object.entries(LAYER).map(([name, shape]) => bfloat16(`layers.${index}.${name}`, shape));
  return [...Array.from({ length: layers }, layerOf).flat(), bfloat16('norm', [1])];
}

/**
 * A model like Llama with a billion parameters: 16 layers, hidden size 2048, feed-forward size 8192, 32 heads of
 * which 8 for keys and values, vocabulary 128256, a separate output matrix: 147 tensors, 3.0 GB in BF16. Width and
 * vocabulary shrink or grow together until it has about `byteLength` bytes; the vocabulary takes up what the
 * steps of the width leave over. All tensors are BF16, of whole 8-byte words, in the order of the modules.
 */
export function modelTensors(byteLength, shareOfVocabulary = 1) {
  const full = dataByteLength(layersOf(FULL_HIDDEN)) + 4 * FULL_VOCABULARY * FULL_HIDDEN;
  // Heads are 64 wide and four of them share keys and values, so a real width is a multiple of 256.
  const ideal = FULL_HIDDEN * Math.sqrt(byteLength / full);
  const step = ideal >= 256 ? 256 : 16;
  const hidden = Math.max(step, Math.floor((ideal + 1e-6) / step) * step);
  const layers = layersOf(hidden);
  const rest = Math.max(1, Math.round((byteLength - dataByteLength(layers)) / (4 * hidden)));
  const vocabulary = Math.max(1, Math.round(rest * shareOfVocabulary));
  return [
    tensor('model.embed_tokens.weight', 'BF16', vocabulary, hidden),
    ...layers,
    tensor('lm_head.weight', 'BF16', vocabulary, hidden),
  ];
}

/** The matrix of a mixed model that is F8_E4M3. */
export const F8_NAME = 'model.layers.15.self_attn.q_proj.weight';

/**
 * Such a model with norms and output matrix in F32, as trained checkpoints often have them, and one matrix in
 * F8_E4M3. Of the two matrices with rows for the vocabulary, one is twice as large as in BF16.
 */
export function mixedTensors(byteLength) {
  return modelTensors(byteLength, 2 / 3).map(({ name, shape }) => {
    const isF32 = /norm\.weight$|^lm_head\./.test(name);
    return tensor(name, isF32 ? 'F32' : name === F8_NAME ? 'F8_E4M3' : 'BF16', ...shape);
  });
}

/** Tensors of 512 bytes; the header of a million stays below the 100 MB that the format allows. */
export function manySmallTensors(count) {
  return Array.from({ length: count }, (_, index) =>
    tensor(`layers.${Math.floor(index / 10)}.expert.${index % 10}`, 'BF16', 16, 16),
  );
}

/** Layers of a model that has several shards: with 17 GB its largest tensors have 147 MB. */
const SHARDED_LAYERS = 32;
const ELEMENTS_PER_LAYER = Object.values(LAYER).reduce(
  (sum, [rows, columns = 0]) => sum + rows * columns,
  0,
);

/** The layers of a larger model, of about `byteLength` bytes: 289 tensors, without embedding and output matrix. */
export function largeModelTensors(byteLength) {
  const hidden = Math.sqrt(byteLength / (SHARDED_LAYERS * ELEMENTS_PER_LAYER * ELEMENT_BYTES.BF16));
  return layersOf(Math.max(8, Math.floor(hidden / 8) * 8), SHARDED_LAYERS);
}

const EXPERTS = 256;
const EXPERT = ['gate_proj', 'up_proj', 'down_proj'].flatMap((name) => [
  `${name}.weight`,
  `${name}.weight_scale_inv`,
]);

/** Tensors of 4 kB with the names of a quantized mixture of experts, as the largest models have them. */
export function expertTensors(count) {
  return Array.from({ length: count }, (_, index) => {
    const expert = Math.floor(index / EXPERT.length);
    const layer = `model.layers.${Math.floor(expert / EXPERTS)}`;
    const name = `${layer}.mlp.experts.${expert % EXPERTS}.${EXPERT[index % EXPERT.length]}`;
    return tensor(name, 'BF16', 32, 64);
  });
}

/** The order of dtypes in these files; the reference writes tensors of a later one first. */
const DTYPES = ['U8', 'F8_E4M3', 'BF16', 'F32'];

/** Names are ASCII here, so that the order of UTF-16 units is the order of UTF-8 bytes. */
const compareTensors = (a, b) =>
  DTYPES.indexOf(b.dtype) - DTYPES.indexOf(a.dtype) || (a.name < b.name ? -1 : 1);

/**
 * Length prefix and header, laid out without gaps in the reference's order, compact and padded to 8 bytes. With
 * an indent, its JSON has lines and blanks, as no usual writer makes them.
 */
function encodeHeader(tensors, metadata = {}, indent = 0) {
  let end = 0;
  const entries = [...tensors].sort(compareTensors).map(({ name, dtype, shape, byteLength }) => {
    end += byteLength;
    return [name, { dtype, shape, data_offsets: [end - byteLength, end] }];
  });
  const all = Object.fromEntries([['__metadata__', metadata], ...entries]);
  const json = JSON.stringify(all, null, indent);
  const header = Buffer.alloc(8 + Math.ceil(json.length / 8) * 8, ' ');
  header.writeBigUInt64LE(BigInt(header.length - 8));
  header.write(json, 8);
  return header;
}

/** Bytes written per call: large enough that calls cost nothing, small enough for the cache. */
const BLOCK_BYTES = 4 * 2 ** 20;

/** A file with pseudo-random weights, two BF16 values at a time, the same in every run with the same seed. */
function* contentsOf(tensors, seed) {
  yield encodeHeader(tensors, { format: 'pt' });
  const block = new Uint32Array(BLOCK_BYTES / 4);
  let next = seed;
  for (let left = dataByteLength(tensors); left > 0; left -= BLOCK_BYTES) {
    for (let index = 0; index < block.length; index++) {
      // Marsaglia's xorshift generator over 32 bits.
      next ^= next << 13;
      next ^= next >>> 17;
      next ^= next << 5;
      // Random signs and mantissas, one bit of the exponent: 0.0078 to 0.031, as weights are.
      block[index] = (next & 0x80ff_80ff) | 0x3c00_3c00;
    }
    yield new Uint8Array(block.buffer, 0, Math.min(BLOCK_BYTES, left));
  }
}

/** Writes such a file and flushes it, or the system writes its pages back while the clocks of the trials run. */
export const writeModel = (path, tensors, signal, seed = 1) =>
  writeFile(path, contentsOf(tensors, seed), { flag: 'wx', flush: true, signal });

/** Writes a file whose data is one hole: it reads as zeros and takes up no space. */
export async function writeSparseModel(path, tensors, metadata = {}, indent = 0) {
  const header = encodeHeader(tensors, metadata, indent);
  await writeFile(path, header, { flag: 'wx' });
  await truncate(path, header.length + dataByteLength(tensors));
}

/**
 * Writes tensors as a checkpoint into a new folder, as many into each of `count` shards, each by `write`, which gets
 * its path, its tensors and its number. Gives the path of the index.
 */
export async function writeCheckpoint(folder, tensors, count, write) {
  await mkdir(folder);
  const weightMap = {};
  const numbered = (number) => String(number).padStart(5, '0');
  for (let number = 1; number <= count; number++) {
    const name = `model-${numbered(number)}-of-${numbered(count)}.safetensors`;
    const ends = [number - 1, number].map((at) => Math.floor((at * tensors.length) / count));
    const own = tensors.slice(...ends);
    await write(join(folder, name), own, number);
    for (const { name: key } of own) weightMap[key] = name;
  }
  const metadata = { total_size: dataByteLength(tensors) };
  const path = join(folder, 'model.safetensors.index.json');
  await writeFile(path, JSON.stringify({ metadata, weight_map: weightMap }, null, 2));
  return path;
}
