// Writes files over the given one by a writer, one after the other, until it is killed.
import { createWriter } from '../../../lib/index.js';

const [path, size] = process.argv.slice(2);
const shape = [Number(size)];

console.log('ready');
for (let value = 1; ; value++) {
  const writer = await createWriter(path, {
    a: { dtype: 'U8', shape },
    b: { dtype: 'U8', shape },
  });
  const bytes = new Uint8Array(Number(size)).fill(value);
  const halves = [bytes.subarray(0, 1000), bytes.subarray(1000)];
  await Promise.all([writer.write('b', halves), writer.write('a', bytes)]);
  await writer.close();
}
