// Saves or converts on request: takes `{ call, value, shards }` as a message and answers with the names
// that were written, or the code of the error.
import { convert, saveCheckpoint } from '../../../../lib/index.js';

const [folder] = process.argv.slice(2);

function save(value, maxShardSize) {
  const tensor = { dtype: 'F32', shape: [4], data: new Float32Array(4).fill(value) };
  const tensors = { a: tensor, b: tensor, c: tensor, d: tensor };
  return saveCheckpoint(folder, tensors, { maxShardSize, durable: false });
}

process.on('message', async ({ call, value, maxShardSize = Number.POSITIVE_INFINITY }) => {
  try {
    if (call === 'reshard') await convert(folder, folder, { maxShardSize, durable: false });
    else await save(value, maxShardSize);
    process.send('done');
  } catch (error) {
    process.send(error.code ?? String(error));
  }
});
process.send('ready');
