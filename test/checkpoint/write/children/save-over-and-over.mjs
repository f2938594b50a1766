// Saves checkpoints of different layouts into one folder until it is killed; says when it begins.
import { saveCheckpoint } from '../../../../lib/index.js';

const [folder] = process.argv.slice(2);
for (let value = 1; ; value++) {
  const data = new Float32Array(2 ** 16).fill(value);
  const tensors = ['a', 'b', 'c', 'd'].map((name) => [
    name,
    { dtype: 'F32', shape: [2 ** 16], data },
  ]);
  const maxShardSize = [Infinity, 2 ** 18, 2 ** 18, 2 ** 19, 2 ** 19][value % 5];
  await saveCheckpoint(folder, tensors, { maxShardSize, durable: value % 2 === 0 });
  if (value === 1) console.log('begun');
}
