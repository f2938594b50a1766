/** What quantization cost: reads weights through their codes and scales, and compares them with the original's. */
import { dequantize, safeOpen } from 'safetensors-mmap';

const [quantizedPath, originalPath] = process.argv.slice(2);
if (originalPath === undefined) {
  console.error('usage: node compare.js QUANTIZED ORIGINAL');
  process.exit(2);
}

/** The error as a part of the weight's own size: the root of the squares' sums. */
async function relativeError(tensor, original) {
  let errors = 0;
  let squares = 0;
  // Some rows at a time: no weight is whole in memory.
  for await (const { row, values } of tensor.rowBlocks({ maxByteLength: 4 << 20 })) {
    const width = tensor.shape.at(-1);
    const expected = original.slice([row, row + values.length / width]).toFloat32();
    for (let i = 0; i < values.length; i++) {
      errors += (values[i] - expected[i]) ** 2;
      squares += expected[i] ** 2;
    }
  }
  return squares === 0 ? 0 : Math.sqrt(errors / squares);
}

const opened = [];
try {
  const stored = safeOpen(quantizedPath);
  opened.push(stored);
  const original = safeOpen(originalPath);
  opened.push(original);
  const model = await dequantize(stored);
  for (const problem of model.problems) console.error(problem.message);
  for (const name of model.keys()) {
    const { scheme, bits } = model.info(name);
    if (scheme === null || !original.has(name)) continue;
    const error = await relativeError(model.getTensor(name), original.getTensor(name));
    console.log(`${name}  ${scheme}, ${bits} bits, ${(100 * error).toFixed(2)} % off`);
  }
  if (model.problems.length > 0) process.exitCode = 1;
} catch (error) {
  console.error(`not compared: ${error.message}`);
  process.exitCode = 1;
} finally {
  for (const checkpoint of opened) checkpoint.close();
}
