/** Times calls on an open file. Arguments: METHOD FILE PASSES. `calls.py` does the same. */
import { safeOpen } from 'safetensors-mmap';

/** The line this child prints: times in ms. */
export interface CallsResult {
  /** The memory of the first tensor, the first of the process. */
  readonly first: number;
  /** The memory of all tensors, the first included. */
  readonly all: number;
  /** One more call for a tensor that was there, once all code is warm. */
  readonly again: number;
}

const [, path = '', passes] = process.argv.slice(2);
const file = safeOpen(path);
const names = file.offsetKeys();
const held: ArrayBuffer[] = [];
const start = performance.now();
let first = Number.NaN;
for (const name of names) {
  if (held.push(file.getTensor(name).buffer) === 1) first = performance.now() - start;
}
const all = performance.now() - start;

/** The time of a call, over so many passes through all tensors. */
function timeCalls(passes: number): number {
  const start = performance.now();
  for (let pass = 0; pass < passes; pass++) {
    for (const name of names) file.getTensor(name);
  }
  return (performance.now() - start) / (passes * names.length);
}

timeCalls(Number(passes));
const again = timeCalls(Number(passes));
if (held.length !== file.size) throw new Error('a buffer is missing');
const result: CallsResult = { first, all, again };
console.log(JSON.stringify(result));
