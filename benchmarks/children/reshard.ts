/**
 * Writes a checkpoint in other files. Arguments: durable|plain MAXIMUM SOURCE TARGET HOLDER, with the
 * size of a shard in bytes, or Infinity.
 */
import { reshard } from 'safetensors-mmap';
import { measureWriter } from './measure-writer.js';

const [durability, maximum, source = '', target = '', holder = ''] = process.argv.slice(2);
const options = { maxShardSize: Number(maximum), durable: durability === 'durable' };
await measureWriter(holder, async () => {
  await reshard(source, target, options);
});
