/**
 * Takes rows of the tensor `table`, scattered over all of it, into an array that is used again. Arguments: METHOD
 * FILE ROWS, the number of rows. Prints the ms of the first time, when pages may have to come from the disk
 * (`first`), for how long the event loop was held meanwhile (`held`), and of later times; and the sum of the bytes
 * that were written, the same for all methods of a kind.
 */
import { safeOpen } from 'safetensors-mmap';

const ROUNDS = 40;

const [method, path, count] = process.argv.slice(2);
const rows = Number(count);
const table = safeOpen(path).getTensor('table');
const [rowCount, width] = table.shape;
// A prime: neighbours in the list are far apart in the table.
const indices = Int32Array.from({ length: rows }, (_, i) => (i * 7919 + 13) % rowCount);
// The arrays are used again: the system has provided their memory.
const bytes = new Uint8Array((rows * table.byteLength) / rowCount).fill(1);
const values = new Float32Array(rows * width).fill(1);

const METHODS = {
  slices: () => {
    let written = 0;
    for (const index of indices) {
      const row = table.slice(index).bytes;
      bytes.set(row, written);
      written += row.length;
    }
  },
  take: () => table.take(indices, { into: bytes }),
  takeAsync: () => table.takeAsync(indices, { into: bytes }),
  'slices-float32': () => {
    let written = 0;
    for (const index of indices) {
      table.slice(index).toFloat32({ into: values.subarray(written, written + width) });
      written += width;
    }
  },
  takeFloat32: () => table.takeFloat32(indices, { into: values }),
  takeFloat32Async: () => table.takeFloat32Async(indices, { into: values }),
};
const run = METHODS[method];

// For how long no other event had its turn.
let held = 0;
let last = performance.now();
let isDone = false;
const turn = () => {
  const now = performance.now();
  held = Math.max(held, now - last);
  last = now;
  if (!isDone) setImmediate(turn);
};
setImmediate(turn);
const start = performance.now();
await run();
const first = performance.now() - start;
isDone = true;
turn();

const later = [];
for (let round = 0; round < ROUNDS; round++) {
  const start = performance.now();
  await run();
  later.push(performance.now() - start);
}
const written = method.includes('loat32') ? new Uint8Array(values.buffer) : bytes;
const sum = written.reduce((total, byte) => total + byte, 0);
console.log(JSON.stringify({ first, held, later, sum }));
