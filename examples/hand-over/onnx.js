/** onnxruntime-node over a safetensors file: as weights that it maps by itself, and as tensors that are handed over. */
import { writeFileSync } from 'node:fs';
import ort from 'onnxruntime-node';
import { safeOpen } from 'safetensors-mmap';
import { withMemory } from './memory.js';
import { matMulModel, matMulOfInputs } from './onnx-model.js';

const file = safeOpen('model.safetensors');
const weight = file.getTensor('weight').expectDtype('F32');
const { byteLength, shape } = weight;
const [depth, width] = shape;

// A row that picks some rows of the weight, so that anybody can add up the result.
const chosen = [0, 1, depth - 1];
const x = new Float32Array(depth);
for (const row of chosen) x[row] = 1;
const expected = new Float32Array(width);
for (const row of chosen) {
  for (const [k, value] of weight.slice(row).data.entries()) expected[k] += value;
}

function check(y) {
  const off = expected.findIndex((value, k) => value !== y.data[k]);
  if (off >= 0) throw new Error(`at ${off}: expected ${expected[off]}, found ${y.data[off]}`);
}

// Otherwise the runtime makes a copy of the weight that its kernels read faster.
const options = { extra: { session: { disable_prepacking: '1' } } };

try {
  // External data: the model has the place of the weight in the file, and the runtime maps that.
  const model = await matMulModel(file, 'weight', { location: 'model.safetensors', rows: 1 });
  writeFileSync('model.onnx', model);
  const mapped = await withMemory(`model.onnx of ${model.length} bytes`, byteLength, async () => {
    const session = await ort.InferenceSession.create('model.onnx', options);
    const { y } = await session.run({ x: new ort.Tensor('float32', x, [1, depth]) });
    check(y);
    return session;
  });
  await mapped.release();

  // Handed over: the tensor of the runtime is over the mapped memory itself.
  const session = await ort.InferenceSession.create(matMulOfInputs([1, depth], shape), options);
  await withMemory('handed over', byteLength, async () => {
    const w = new ort.Tensor('float32', weight.data, shape);
    const { y } = await session.run({ x: new ort.Tensor('float32', x, [1, depth]), w });
    check(y);
    console.log(`the same memory: ${w.data.buffer === weight.buffer}`);
  });
  await session.release();
} finally {
  // What was handed over stays valid: only `close({ detach: true })` would take it away.
  file.close();
}
