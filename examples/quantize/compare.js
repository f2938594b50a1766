/** What quantization cost: reads weights through their codes and scales, and compares them with the original's. */
import { dequantize, safeOpen } from 'safetensors-mmap';
import { compareTensors } from 'safetensors-mmap/inspect';

const [quantizedPath, originalPath] = process.argv.slice(2);
if (originalPath === undefined) {
  console.error('usage: node compare.js QUANTIZED ORIGINAL');
  process.exit(2);
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
    const { quantization } = model.info(name);
    if (quantization === undefined || !original.has(name)) continue;
    const { scheme, bits } = quantization;
    // Reads both window by window: no weight is held in memory as a whole.
    const { relative } = await compareTensors(original.getTensor(name), model.getTensor(name));
    console.log(`${name}  ${scheme}, ${bits} bits, ${(100 * (relative ?? 0)).toFixed(2)} % off`);
  }
  if (model.problems.length > 0) process.exitCode = 1;
} catch (error) {
  console.error(`not compared: ${error.message}`);
  process.exitCode = 1;
} finally {
  for (const checkpoint of opened) checkpoint.close();
}
