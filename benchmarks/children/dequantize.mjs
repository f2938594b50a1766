/**
 * Times quantized weights as float32. Arguments: METHOD FOLDER, with a checkpoint of one weight in a folder for each
 * scheme. Prints ms for 1 GB of float32 by scheme, and the sum of all words. So does `dequantize.py`.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { dequantize, safeOpen } from 'safetensors-mmap';

const [, folder] = process.argv.slice(2);
const result = { bytes: 0 };
let sum = 0;
for (const scheme of readdirSync(folder)) {
  const model = await dequantize(safeOpen(join(folder, scheme)));
  const weight = model.getTensor('m.weight');
  const into = new Float32Array(weight.elementCount).fill(1);
  const times = Array.from({ length: 7 }, () => {
    const start = performance.now();
    weight.toFloat32({ into });
    return performance.now() - start;
  });
  result[scheme] = times.sort((a, b) => a - b)[3] / (into.byteLength / 1e9);
  result.bytes += into.byteLength;
  for (const word of new Uint32Array(into.buffer)) sum = (sum + word) >>> 0;
}
console.log(JSON.stringify({ ...result, checksum: sum }));
for await (const _ of process.stdin);
