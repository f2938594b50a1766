/**
 * Writes a copy of a file. Arguments: METHOD SOURCE TARGET. The methods `memory…` hold the tensors before the clock
 * starts, `file…` open the source within it. Prints 0 when it is ready, starts its clock when standard input ends,
 * and prints the ms until the new file is in its place (`elapsed`), and by how many bytes resident memory grew at
 * most (`extraMemory`). `save.py` and `write_limit.c` do the same.
 */
import { writeFile } from 'node:fs';
import { open } from 'node:fs/promises';
import { promisify } from 'node:util';
import { safeOpen, saveFile } from 'safetensors-mmap';
import { forgetPeak, peakMemory } from './memory.mjs';

const [method, source, target] = process.argv.slice(2);
const durable = method.endsWith('-durable');

/** Each prepares its work, and gives it as a function. */
const METHODS = {
  memory: async () => {
    const file = safeOpen(source);
    const { metadata } = file;
    const tensors = await file.load();
    file.close();
    return () => saveFile(target, tensors, { metadata, durable });
  },
  file: () => () => {
    const file = safeOpen(source);
    return saveFile(target, file.getTensors(), { metadata: file.metadata, durable });
  },
  writeFile: async () => {
    const file = await open(source);
    // `readFile` refuses files above 2 GiB.
    const bytes = Buffer.alloc((await file.stat()).size);
    for (let done = 0; done < bytes.length; ) {
      done += (await file.read(bytes, done, Math.min(2 ** 30, bytes.length - done), done))
        .bytesRead;
    }
    await file.close();
    // The one with a callback writes the whole buffer in one call, that of fs/promises in small ones.
    return () => promisify(writeFile)(target, bytes);
  },
};

const work = await METHODS[method.replace('-durable', '')]();
console.log(0);
for await (const _ of process.stdin);
forgetPeak();
const before = peakMemory();
const start = performance.now();
await work();
console.log(
  JSON.stringify({ elapsed: performance.now() - start, extraMemory: peakMemory() - before }),
);
