/**
 * Converts a checkpoint of torch in a process of its own, everything imported: `convert`, or `convert-unverified`;
 * `cp` copies it as it is. Arguments: METHOD FILE TARGET. Prints the ms as `elapsed`, and as `peak` the highest
 * resident memory. `convert_checkpoint.py` does the same.
 */
import { execFileSync } from 'node:child_process';
import { peakMemory } from './memory.mjs';

const [method, path, target] = process.argv.slice(2);
// Loaded before the clock starts, and not for a copy.
const { convert } = method === 'cp' ? {} : await import('safetensors-mmap/convert');

const start = performance.now();
if (method === 'cp') execFileSync('cp', ['--reflink=never', path, target]);
else await convert(path, target, { durable: false, verify: method === 'convert' });
const elapsed = performance.now() - start;
// What `cp` needs is not in this process.
console.log(JSON.stringify(method === 'cp' ? { elapsed } : { elapsed, peak: peakMemory() }));
