/** TensorFlow.js, all JavaScript: its tensors are over the mapped memory as well. */
import '@tensorflow/tfjs-backend-cpu';
import * as tf from '@tensorflow/tfjs-core';
import { safeOpen } from 'safetensors-mmap';
import { withMemory } from './memory.js';

const file = safeOpen('model.safetensors');
try {
  const stored = file.getTensor('weight').expectDtype('F32');
  tf.enableProdMode(); // no advice on the console
  await tf.setBackend('cpu');
  const [, width] = stored.shape;
  await withMemory('TensorFlow.js', stored.byteLength, async () => {
    const weight = tf.tensor2d(stored.data, stored.shape);
    console.log(`the same memory: ${weight.dataSync().buffer === stored.buffer}`);
    const rows = tf.gather(weight, [0, 2, 1]);
    const sums = tf.sum(rows, 0);
    const found = await sums.data();
    const expected = new Float32Array(width);
    for (const row of [0, 2, 1]) {
      for (const [k, value] of stored.slice(row).data.entries()) expected[k] += value;
    }
    const off = expected.findIndex((value, k) => value !== found[k]);
    if (off >= 0) throw new Error(`at ${off}: expected ${expected[off]}, found ${found[off]}`);
    // TensorFlow.js counts references; the mapping does not mind.
    tf.dispose([weight, rows, sums]);
  });
  console.log('sums of three rows are right');
} finally {
  file.close();
}
