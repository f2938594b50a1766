/**
 * WebAssembly has a memory of its own, so something must be copied into it: rows of F16 are converted straight there, block
 * by block, into memory that stays the same.
 */
import { readFileSync } from 'node:fs';
import { safeOpen } from 'safetensors-mmap';
import wabt from 'wabt';
import { withMemory } from './memory.js';

const PAGE = 65_536;
const BLOCK_ROWS = 1024;

const tools = await wabt();
const { buffer } = tools
  .parseWat('dot.wat', readFileSync('dot.wat', 'utf8'), { simd: true })
  .toBinary({});
const { instance } = await WebAssembly.instantiate(buffer);
const { memory, dot } = instance.exports;

const file = safeOpen('model.safetensors');
try {
  const tensor = file.getTensor('half');
  const [rows, width] = tensor.shape;
  // The vector, then a block of rows. After `grow` there is another buffer: views are made behind it.
  memory.grow(Math.ceil((4 * width * (1 + BLOCK_ROWS)) / PAGE));
  const vector = new Float32Array(memory.buffer, 0, width);
  const block = new Float32Array(memory.buffer, 4 * width, BLOCK_ROWS * width);
  vector.forEach((_, k) => {
    vector[k] = (k % 7) - 2;
  });

  const scores = new Float32Array(rows);
  await withMemory('WebAssembly', tensor.byteLength, async () => {
    for (let first = 0; first < rows; first += BLOCK_ROWS) {
      const part = tensor.slice([first, Math.min(first + BLOCK_ROWS, rows)]);
      const into = block.subarray(0, part.elementCount);
      part.toFloat32({ into });
      for (let i = 0; i < into.length / width; i++) {
        scores[first + i] = dot(into.byteOffset + 4 * i * width, vector.byteOffset, width);
      }
    }
  });

  const row = Math.floor(rows / 3);
  const expected = tensor
    .slice(row)
    .toFloat32()
    .reduce((sum, value, k) => sum + value * vector[k], 0);
  if (scores[row] !== expected) throw new Error(`expected ${expected}, found ${scores[row]}`);
  console.log(`${rows} dot products; that of row ${row} is ${expected}`);
} finally {
  file.close();
}
