/**
 * Takes random rows of a table as float32, 16 a call. Arguments: METHOD FILE CALLS. Prints how many rows a second
 * there were, in each of three passes over the same rows.
 */
import { openSync, readSync } from 'node:fs';
import { safeOpen } from 'safetensors-mmap';

const [method, path, count] = process.argv.slice(2);
const ROWS = 16;
const CALLS_AT_ONCE = 16;
const table = safeOpen(path).getTensor('table');
const [height, width] = table.shape;
const into = new Float32Array(ROWS * width);

const floats = new Int32Array(into.buffer);
/** As programs do it that know BF16. */
function widen(values, at) {
  for (let i = 0; i < values.length; i++) floats[at + i] = values[i] << 16;
}
const row = new Uint16Array(width);
const fd = openSync(path, 'r');
const length = new BigUint64Array(1);
readSync(fd, length, 0, 8, 0);
const dataStart = 8 + Number(length[0]);

const METHODS = {
  take: (rows) => table.takeFloat32(rows, { into }),
  takeAsync: (rows) => table.takeFloat32Async(rows),
  loop: (rows) =>
    rows.forEach((at, i) => {
      widen(table.data.subarray(at * width, (at + 1) * width), i * width);
    }),
  read: (rows) =>
    rows.forEach((at, i) => {
      readSync(fd, row, 0, row.byteLength, dataStart + at * row.byteLength);
      widen(row, i * width);
    }),
};

let state = 1;
function nextRow() {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state % height;
}
const calls = Array.from({ length: Number(count) }, () => Array.from({ length: ROWS }, nextRow));
const passes = [];
for (let pass = 0; pass < 3; pass++) {
  const start = performance.now();
  for (let i = 0; i < calls.length; i += CALLS_AT_ONCE) {
    await Promise.all(calls.slice(i, i + CALLS_AT_ONCE).map(METHODS[method]));
  }
  passes.push(Math.round((calls.length * ROWS * 1000) / (performance.now() - start)));
}
const [first, second, third] = passes;
console.log(JSON.stringify({ first, second, third }));
