/**
 * Merges into a new checkpoint, durably. Arguments: METHOD FILE FOLDER TARGET. FOLDER has `base`, `other`, `third`, and
 * `adapter`.
 * Prints the ms until the new files are in their place (`elapsed`), and the highest private memory above that before
 * (`privateMemory`), looked up every 20 ms. So does `merge.py`.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { mergeAdapters, mergeModels, safeOpen, saveCheckpoint } from 'safetensors-mmap';

const [method, , folder, target] = process.argv.slice(2);

function privateMemory() {
  const status = readFileSync('/proc/self/status', 'utf8');
  return 1024 * Number(/^RssAnon:\s+(\d+)/m.exec(status)[1]);
}

const before = privateMemory();
let most = before;
const timer = setInterval(() => {
  most = Math.max(most, privateMemory());
}, 20);
const start = performance.now();
const base = join(folder, 'base');

function mergeTwo() {
  const isLinear = method === 'linear';
  const names = isLinear ? ['base', 'other'] : ['other', 'third'];
  const models = names.map((name) => ({
    source: join(folder, name),
    weight: 0.5,
    ...(isLinear ? {} : { density: 0.5 }),
  }));
  return mergeModels({ method, models, ...(isLinear ? {} : { base }) });
}

const merged =
  method === 'adapter'
    ? await mergeAdapters(safeOpen(base), [join(folder, 'adapter')])
    : await mergeTwo();
await saveCheckpoint(target, merged);
const elapsed = performance.now() - start;
clearInterval(timer);
console.log(JSON.stringify({ elapsed, privateMemory: most - before }));
for await (const _ of process.stdin);
