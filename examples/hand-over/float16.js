/** Float16Array, which Node has from version 24 on: numbers of F16 without a copy and without a conversion. */
import { safeOpen } from 'safetensors-mmap';
import { withMemory } from './memory.js';

if (globalThis.Float16Array === undefined) {
  console.error(`Node ${process.versions.node} has no Float16Array: toFloat32() gives the numbers`);
  process.exit(1);
}

const file = safeOpen('model.safetensors');
try {
  const tensor = file.getTensor('half');
  await withMemory('Float16Array', tensor.byteLength, async () => {
    const numbers = tensor.view(Float16Array);
    console.log(`the same memory: ${numbers.buffer === tensor.buffer}`);
    const converted = tensor.slice([0, 100]).toFloat32();
    const off = converted.findIndex((value, i) => value !== numbers[i]);
    if (off >= 0) throw new Error(`at ${off}: expected ${converted[off]}, found ${numbers[off]}`);
    console.log(
      `the largest of the first row: ${Math.max(...numbers.subarray(0, tensor.shape[1]))}`,
    );
  });
} finally {
  file.close();
}
