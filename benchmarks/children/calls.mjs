/**
 * Times calls on an open file, in ms: the memory of its first tensor, the first of the process; of all; one more
 * call for a tensor that was there, once all code is warm. Arguments: METHOD FILE PASSES, each through all
 * tensors. `calls.py` does the same.
 */
import { safeOpen } from 'safetensors-mmap';

const [, path, passes] = process.argv.slice(2);
const file = safeOpen(path);
const names = file.offsetKeys();
const held = [];
const start = performance.now();
let first;
for (const name of names) {
  if (held.push(file.getTensor(name).buffer) === 1) first = performance.now() - start;
}
const all = performance.now() - start;

function timeCalls() {
  const start = performance.now();
  for (let pass = 0; pass < passes; pass++) {
    for (const name of names) file.getTensor(name);
  }
  return (performance.now() - start) / (passes * names.length);
}

timeCalls();
const again = timeCalls();
if (held.length !== file.size) throw new Error('a buffer is missing');
console.log(JSON.stringify({ first, all, again }));
