// Goes through the weights of a dequantized view of a sparse file; prints by how many bytes of private memory the
// process grew at most.
import { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { dequantize, safeOpen } from '../../../lib/index.js';
import { processStatus } from '../../support/process-memory.mjs';

const [path, way] = process.argv.slice(2);
// Llama 3 70B with a quarter of its width: the embeddings are by far the longest tensors.
const [hidden, intermediate, vocabulary] = [2048, 7168, 32064];
const header = {};
let end = 0;
let values = 0;
const add = (name, dtype, shape, byteLength) => {
  header[name] = { dtype, shape, data_offsets: [end, end + byteLength] };
  end += byteLength;
};
const addWeight = (name, rows, columns) => {
  values += rows * columns;
  add(name, 'F8_E4M3', [rows, columns], rows * columns);
  const blocks = [rows / 128, columns / 128];
  add(`${name}_scale_inv`, 'F32', blocks, 4 * blocks[0] * blocks[1]);
};
const addEmbedding = (name) => {
  values += vocabulary * hidden;
  add(name, 'BF16', [vocabulary, hidden], 2 * vocabulary * hidden);
};
addEmbedding('embed.weight');
for (let i = 0; i < 12; i++) {
  for (const one of ['q', 'o']) addWeight(`${i}.${one}.weight`, hidden, hidden);
  for (const one of ['gate', 'up']) addWeight(`${i}.${one}.weight`, intermediate, hidden);
  addWeight(`${i}.down.weight`, hidden, intermediate);
}
addEmbedding('head.weight');
const json = Buffer.from(JSON.stringify(header));
const length = Buffer.alloc(8);
length.writeBigUInt64LE(BigInt(json.length));
const file = openSync(path, 'w');
writeSync(file, Buffer.concat([length, json]));
ftruncateSync(file, 8 + json.length + end);
closeSync(file);

const model = await dequantize(safeOpen(path), {
  config: { quantization_config: { quant_method: 'fp8', weight_block_size: [128, 128] } },
});
const before = processStatus('RssAnon');
let most = 0;
let sum = 0;
for (const [, tensor] of model) {
  sum += (way === 'data' ? tensor.data : tensor.toFloat32()).length;
  most = Math.max(most, processStatus('RssAnon') - before);
}
if (sum !== values) throw new Error(`${sum} values`);
console.log(JSON.stringify(most));
