/**
 * Takes rows of the tensor `table`, scattered over all of it, into an array that is used again.
 * Arguments: METHOD FILE ROWS, the number of rows.
 */
import { safeOpen, type Tensor } from 'safetensors-mmap';
import { median } from '../figures.js';

/** The line this child prints: times in ms. */
export interface RowsResult {
  /** The first time, when pages may have to come from the disk. */
  readonly first: number;
  /** The longest time for which the event loop was held meanwhile. */
  readonly held: number;
  /** Median of later times. */
  readonly again: number;
  /** The sum of the bytes that were written: the same for all methods of a kind. */
  readonly sum: number;
}

const ROUNDS = 40;

const [method = '', path = '', rows] = process.argv.slice(2);
const takenRows = Number(rows);
const table: Tensor = safeOpen(path).getTensor('table');
const [rowCount = 0, width = 0] = table.shape;
// A prime: neighbours in the list are far apart in the table.
const indices = Int32Array.from({ length: takenRows }, (_, i) => (i * 7919 + 13) % rowCount);
const bytes = new Uint8Array((takenRows * table.byteLength) / rowCount);
const values = new Float32Array(takenRows * width);
// The arrays are used again: the system has provided their memory.
bytes.fill(1);
values.fill(1);

const METHODS: Readonly<Record<string, () => unknown>> = {
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
if (run === undefined) throw new Error(`there is no method ${method}`);

/** Runs once, in ms, and tells how long no other event had its turn. */
async function time(): Promise<{ elapsed: number; held: number }> {
  let held = 0;
  let last = performance.now();
  let isDone = false;
  const turn = (): void => {
    const now = performance.now();
    held = Math.max(held, now - last);
    last = now;
    if (!isDone) setImmediate(turn);
  };
  setImmediate(turn);
  const start = performance.now();
  await run?.();
  const elapsed = performance.now() - start;
  isDone = true;
  turn();
  return { elapsed, held };
}

const { elapsed: first, held } = await time();
const later: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  const start = performance.now();
  await run();
  later.push(performance.now() - start);
}
const written = method.includes('loat32') ? new Uint8Array(values.buffer) : bytes;
const sum = written.reduce((total, byte) => total + byte, 0);
const result: RowsResult = { first, held, again: median(later), sum };
console.log(JSON.stringify(result));
