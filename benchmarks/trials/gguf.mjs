/** GGUF: blocks as float32, and a model as F16 in little memory. */
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { pick } from '../contenders.mjs';

const WAYS = pick('ggufDecode ggufDecodePython');
const CONVERT = pick('ggufConvert');

/** Number of the type, values and bytes of a block, and the positions of its scales, which are F16. */
const TYPES = {
  F32: [0, 1, 4, []],
  Q4_0: [2, 32, 18, [0]],
  Q8_0: [8, 32, 34, [0]],
  Q4_K: [12, 256, 144, [0, 2]],
  Q5_K: [13, 256, 176, [0, 2]],
  Q6_K: [14, 256, 210, [208]],
};

/** Rows and columns: 117 MB of float32, more than caches hold. */
const [ROWS, COLUMNS] = [4096, 7168];

/** Layers of a model of 7B parameters, and its dimensions. */
const LAYERS = 32;
const [HIDDEN, INNER, VOCABULARY] = [4096, 11_008, 32_000];

/** A file is written in pieces of about this length. */
const PIECE_BYTE_LENGTH = 2 ** 22;

const MAGIC = 'GGUF';
const ALIGNMENT = 32;

/** Blocks in no order with scales near 1, so that no value is subnormal. */
function blocksOf(type, count) {
  const [, , byteLength, scales] = TYPES[type];
  let next = 1;
  const bytes = Uint8Array.from({ length: count * byteLength }, () => {
    next = (Math.imul(next, 1103515245) + 12345) | 0;
    return (next >>> 16) & (scales.length === 0 ? 0x3f : 0xff);
  });
  for (let block = 0; block < bytes.length; block += byteLength) {
    for (const scale of scales) bytes.set([bytes[block + scale], 0x3c], block + scale);
  }
  return bytes;
}

/** Writes tensors, each with type, rows and columns by its name. */
function writeGguf(path, tensors) {
  const u32 = (value) => Buffer.from(Uint32Array.of(value).buffer);
  const u64 = (value) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
  const text = (value) => [u64(value.length), Buffer.from(value)];
  let offset = 0;
  const infos = Object.entries(tensors).flatMap(([name, [type, rows, columns]]) => {
    const [number, length, byteLength] = TYPES[type];
    const at = u64(offset);
    offset += Math.ceil(((rows * columns) / length) * (byteLength / ALIGNMENT)) * ALIGNMENT;
    return [...text(name), u32(2), u64(columns), u64(rows), u32(number), at];
  });
  const key = [...text('general.architecture'), u32(8), ...text('llama')];
  const count = u64(Object.keys(tensors).length);
  const header = Buffer.concat([Buffer.from(MAGIC), u32(3), count, u64(1), ...key, ...infos]);
  const file = openSync(path, 'w');
  writeSync(file, header);
  writeSync(file, Buffer.alloc((ALIGNMENT - (header.length % ALIGNMENT)) % ALIGNMENT));
  for (const [type, rows, columns] of Object.values(tensors)) {
    const [, length, byteLength] = TYPES[type];
    const total = (rows * columns * byteLength) / length;
    const piece = blocksOf(
      type,
      Math.min(Math.floor(PIECE_BYTE_LENGTH / byteLength), total / byteLength),
    );
    for (let at = 0; at < total; at += piece.length) {
      writeSync(file, piece.subarray(0, Math.min(piece.length, total - at)));
    }
    writeSync(file, Buffer.alloc((ALIGNMENT - (total % ALIGNMENT)) % ALIGNMENT));
  }
  closeSync(file);
}

/** The tensors of a model as Q4_K_M: Q4_K, in some places Q6_K, and F32. */
function modelOf(layers) {
  const tensors = {
    'token_embd.weight': ['Q4_K', VOCABULARY, HIDDEN],
    'output.weight': ['Q6_K', VOCABULARY, HIDDEN],
  };
  for (let layer = 0; layer < layers; layer++) {
    const more = layer % 2 === 0 ? 'Q6_K' : 'Q4_K';
    const add = (name, type, rows, columns) => {
      tensors[`blk.${layer}.${name}.weight`] = [type, rows, columns];
    };
    add('attn_norm', 'F32', 1, HIDDEN);
    for (const name of ['attn_q', 'attn_k', 'attn_output']) add(name, 'Q4_K', HIDDEN, HIDDEN);
    add('attn_v', more, HIDDEN, HIDDEN);
    add('ffn_norm', 'F32', 1, HIDDEN);
    add('ffn_gate', 'Q4_K', INNER, HIDDEN);
    add('ffn_up', 'Q4_K', INNER, HIDDEN);
    add('ffn_down', more, HIDDEN, INNER);
  }
  return tensors;
}

export const gguf = {
  name: 'gguf',
  prepare: ({ folder, size }) => {
    const types = join(folder, 'gguf-types');
    mkdirSync(types, { recursive: true });
    for (const type of Object.keys(TYPES).filter((name) => name !== 'F32')) {
      writeGguf(join(types, `${type}.gguf`), { 'm.weight': [type, size(ROWS, 128), COLUMNS] });
    }
    const [eighth, quarter] = [8, 4].map((part) => {
      const path = join(folder, `one-${part}th.gguf`);
      writeGguf(path, modelOf(size(LAYERS / part, 0)));
      return path;
    });
    return { types, eighth, quarter };
  },
  legs: ({ rounds, folder }, { types, eighth, quarter }) => {
    const target = join(folder, 'converted.safetensors');
    const convert = (path) => ({
      contenders: CONVERT,
      path,
      args: [target],
      rounds,
      cache: 'warm',
    });
    return {
      decode: { contenders: WAYS, path: types, rounds, trusted: pick('ggufDecode') },
      eighth: convert(eighth),
      quarter: convert(quarter),
    };
  },
  page: `
    ## GGUF blocks as float32, for 1 GB of it, one thread
    | way | Q4_0 = decode:Q4_0 | Q8_0 = decode:Q8_0 | Q4_K = decode:Q4_K | Q5_K = decode:Q5_K | Q6_K = decode:Q6_K | Q4_K_M to F16, 1/8 of 7B = eighth:elapsed | RssAnon = eighth:max(anonymous) MB | 1/4 of 7B = quarter:elapsed | RssAnon = quarter:max(anonymous) MB |
    - medians of 9 in an array used again; both have the same bits
    - {reasons}
    > Q8_0, 1 GB of float32 | at most 333 ms | decode:ggufDecode.Q8_0 | gguf-py = decode:ggufDecodePython.Q8_0
    > Q4_K, 1 GB of float32 | at most 333 ms | decode:ggufDecode.Q4_K | gguf-py = decode:ggufDecodePython.Q4_K
    > private memory of convert to F16, 1/8 of 7B | at most 100 MB | eighth:ggufConvert.max(anonymous)
    > private memory of convert to F16, 1/4 of 7B | at most 100 MB | quarter:ggufConvert.max(anonymous)`,
};
