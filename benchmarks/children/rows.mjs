/**
 * Takes random rows of a table as float32. Arguments: METHOD FILE CALLS ROWS, of a call. Prints how many rows a second
 * there were, in each of three passes over the same rows, and the ms of a thousand rows in the first and the third.
 */
import { openSync, readSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { safeOpen } from 'safetensors-mmap';

const [method, path, count, rowsOfCall] = process.argv.slice(2);
const ROWS = Number(rowsOfCall);
const CALLS_AT_ONCE = 16;
const table = safeOpen(path).getTensor('table');
const [height, width] = table.shape;
const into = new Float32Array(ROWS * width);

const floats = new Int32Array(into.buffer);
/** As programs do it that know BF16. */
function widen(values, at, patterns = floats) {
  for (let i = 0; i < values.length; i++) patterns[at + i] = values[i] << 16;
}
const row = new Uint16Array(width);
const fd = openSync(path, 'r');
const handle = await open(path);
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
  readAsync: (rows) =>
    Promise.all(
      rows.map(async (at) => {
        const values = new Uint16Array(width);
        await handle.read(values, 0, values.byteLength, dataStart + at * values.byteLength);
        const taken = new Float32Array(width);
        widen(values, 0, new Int32Array(taken.buffer));
        return taken;
      }),
    ),
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
  passes.push((performance.now() - start) / calls.length / ROWS);
}
await handle.close();
const [first, second, third] = passes.map((time) => Math.round(1000 / time));
const [firstTime, , thirdTime] = passes.map((time) => 1000 * time);
console.log(JSON.stringify({ first, second, third, firstTime, thirdTime }));
