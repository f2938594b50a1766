/**
 * Writes a copy of a file. Arguments: METHOD SOURCE TARGET. `memory…` holds the tensors before the clock starts,
 * `file…` opens the source within it. Prints 0 when ready, starts its clock when standard input ends, and prints the ms
 * until the new file is in its place (`elapsed`) and the growth of resident memory (`extraMemory`). So does `save.py`.
 */
import { safeOpen, saveFile } from 'safetensors-mmap';
import { forgetPeak, peakMemory } from './memory.mjs';

const [method, source, target] = process.argv.slice(2);

const isHeld = method.startsWith('memory');

async function load() {
  const file = safeOpen(source);
  const { metadata } = file;
  if (!isHeld) return { tensors: file.getTensors(), metadata };
  const tensors = await file.readTensors();
  file.close();
  return { tensors, metadata };
}

const held = isHeld ? await load() : undefined;
console.log(0);
for await (const _ of process.stdin);
forgetPeak();
const before = peakMemory();
const start = performance.now();
const { tensors, metadata } = held ?? (await load());
await saveFile(target, tensors, { metadata, durable: method.endsWith('-durable') });
const elapsed = performance.now() - start;
console.log(JSON.stringify({ elapsed, extraMemory: peakMemory() - before }));
