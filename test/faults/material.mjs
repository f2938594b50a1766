// The files of the operations: tensors of several states, ways to make files of them, servers that have them.
import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { crc32 } from 'node:zlib';
import { saveCheckpoint, serialize } from '../../lib/index.js';

const FIXTURES = fileURLToPath(new URL('../fixtures/', import.meta.url));

/** Elements of a tensor, and its length in bytes. */
const LENGTH = 1000;
export const BYTE_LENGTH = 4 * LENGTH;

/** Tensors that tell which state they are of. */
function tensorsOf(state) {
  return Object.fromEntries(
    ['a', 'b', 'c', 'd'].map((name, i) => [
      name,
      { dtype: 'F32', shape: [4, LENGTH / 4], data: new Float32Array(LENGTH).fill(state + i / 8) },
    ]),
  );
}

const OLD = tensorsOf(1);
/** Two states, one for each of two processes that write at the same time. */
export const NEW_STATES = [2, 3];

const NEW_STATE = Number(process.env.FAULTS_STATE ?? NEW_STATES[0]);
export const NEW = tensorsOf(NEW_STATE);

/** What is merged counts so much: each state has another result. */
export const MERGED_WEIGHT = NEW_STATE;

/** The tensors as weights of modules, and a LoRA of all of them. */
export const WEIGHTS = Object.fromEntries(
  Object.entries(OLD).map(([name, tensor]) => [`${name}.weight`, tensor]),
);
export const adapterFile = serialize(
  Object.keys(OLD).flatMap((name) =>
    [
      ['down', [1, LENGTH / 4]],
      ['up', [4, 1]],
    ].map(([part, shape]) => {
      const data = new Float32Array(shape[0] * shape[1]).fill(1);
      return [`lora_unet_${name}.lora_${part}.weight`, { dtype: 'F32', shape, data }];
    }),
  ),
);

/** A weight in blocks of FP8, and a plain tensor. */
export const QUANTIZED = {
  'a.weight': { dtype: 'F8_E4M3', shape: [100, 80], data: new Uint8Array(8000).fill(0x38) },
  'a.weight_scale_inv': { dtype: 'F32', shape: [2, 2], data: Float32Array.of(1, 2, 3, 4) },
  b: OLD.b,
};
export const QUANTIZED_CONFIG = JSON.stringify({
  torch_dtype: 'bfloat16',
  quantization_config: { quant_method: 'fp8', weight_block_size: [64, 64] },
});

export const SHARD = { maxShardSize: 2 * BYTE_LENGTH };
export const SMALL_SHARD = { maxShardSize: BYTE_LENGTH };

export const oldFile = serialize(OLD, { metadata: { format: 'pt' } });
export const roomyFile = serialize(OLD, { metadata: { format: 'pt' }, reserve: 1000 });

/** A zip archive of files as they are. */
function storedArchive(files) {
  const [records, directory] = [[], []];
  let position = 0;
  for (const [name, content] of Object.entries(files)) {
    const [path, bytes] = [Buffer.from(name), Buffer.from(content)];
    const facts = Buffer.alloc(26);
    facts.writeUInt16LE(20, 0);
    facts.writeUInt16LE(0x21, 8);
    facts.writeUInt32LE(crc32(bytes), 10);
    facts.writeUInt32LE(bytes.length, 14);
    facts.writeUInt32LE(bytes.length, 18);
    facts.writeUInt16LE(path.length, 22);
    records.push(Buffer.from('PK\x03\x04'), facts, path, bytes);
    const place = Buffer.alloc(14);
    place.writeUInt32LE(position, 10);
    directory.push(Buffer.from('PK\x01\x02\x14\x00'), facts, place, path);
    position += 30 + path.length + bytes.length;
  }
  const end = Buffer.alloc(18);
  const count = Object.keys(files).length;
  end.writeUInt16LE(count, 4);
  end.writeUInt16LE(count, 6);
  end.writeUInt32LE(Buffer.concat(directory).length, 8);
  end.writeUInt32LE(position, 12);
  return Buffer.concat([...records, ...directory, Buffer.from('PK\x05\x06'), end]);
}

/** A DDUF archive: a pipeline of one model, and a folder without weights. */
export const pipelineArchive = storedArchive({
  'model_index.json': JSON.stringify({ scheduler: ['x', 'Y'], unet: ['x', 'Z'] }),
  'scheduler/scheduler_config.json': '{}',
  'unet/config.json': '{}',
  'unet/model.safetensors': serialize(NEW),
});

export const pathIn = (root) => join(root, 'model.safetensors');

export function put(name, bytes) {
  return (root) => {
    mkdirSync(join(root, name, '..'), { recursive: true });
    writeFileSync(join(root, name), bytes);
  };
}

/** A file or a folder of the fixtures. */
export function copied(fixture) {
  return (root) =>
    cpSync(join(FIXTURES, fixture), join(root, basename(fixture)), { recursive: true });
}

export const empty = () => {};
export const file = put('model.safetensors', oldFile);

/** A checkpoint of one state in a folder, with files next to it. */
export function checkpoint(name, layout, tensors = OLD) {
  return async (root) => {
    const folder = join(root, name);
    await saveCheckpoint(folder, tensors, { ...layout, durable: false });
    writeFileSync(join(folder, 'config.json'), `{"of":"${name}"}`);
  };
}

export function both(...makers) {
  return async (root) => {
    for (const make of makers) await make(root);
  };
}

/** Uses opened files, then closes all of them. */
export async function using(opened, use) {
  try {
    return await use(opened);
  } finally {
    opened.close({ detach: true });
  }
}

/** A server of one file with an ETag, without a network. */
export async function fetchNew(_url, { headers }) {
  const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(new Headers(headers).get('range'));
  const bytes = serialize(NEW);
  const end = last === '' ? bytes.length : Math.min(Number(last) + 1, bytes.length);
  return new Response(bytes.subarray(Number(first), end), {
    status: 206,
    headers: {
      ETag: `"${NEW_STATE}"`,
      'Content-Range': `bytes ${first}-${end - 1}/${bytes.length}`,
      'Content-Length': end - Number(first),
    },
  });
}

/** A checkpoint in two shards on the Hub. */
export const REPOSITORY = 'org/model';

const hubFiles = Object.fromEntries(
  ['ab', 'cd'].map((names, i) => {
    const tensors = Object.entries(NEW).filter(([name]) => names.includes(name));
    // One in a folder below, as repositories may have them.
    return [`${i === 0 ? '' : 'part/'}model-0000${i + 1}-of-00002.safetensors`, serialize(tensors)];
  }),
);
hubFiles['model.safetensors.index.json'] = JSON.stringify({
  metadata: {},
  weight_map: Object.fromEntries(
    Object.keys(NEW).map((name, i) => [name, Object.keys(hubFiles)[Math.floor(i / 2)]]),
  ),
});
hubFiles['config.json'] = '{"of":"the Hub"}';

/** Repositories of the Hub on this machine, for operations that need it. */
export const REPOSITORIES = { [REPOSITORY]: { files: hubFiles } };

const answers = new Map();

/** Asks the Hub once, and answers from memory later. */
export async function fetchOnce(url, init) {
  const key = `${url} ${new Headers(init.headers).get('range')}`;
  if (!answers.has(key)) {
    const response = await fetch(url, init);
    answers.set(key, { response, body: await response.arrayBuffer() });
  }
  const { response, body } = answers.get(key);
  const { status, headers } = response;
  const isEmpty = body.byteLength === 0;
  const copy = new Response(isEmpty ? null : body, { status, headers });
  return Object.defineProperty(copy, 'url', { value: response.url });
}
