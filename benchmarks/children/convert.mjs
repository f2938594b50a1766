/**
 * Converts a PyTorch checkpoint in a separate process: `convert`, or `convert-unverified`, whose code loads late;
 * `cp` copies it as it is. Arguments: METHOD FILE TARGET. With an index, `reshard` writes its tensors into a folder, in
 * shards of as many bytes as a further argument gives, and `cp-folder` copies its folder. Prints the ms as `elapsed`,
 * and as `peak` the highest resident memory. `convert_checkpoint.py` does the same as `convert`.
 */
import { execFileSync } from 'node:child_process';
import { dirname } from 'node:path';
import { peakMemory } from './memory.mjs';

const [method, path, target, shardSize] = process.argv.slice(2);
const isCopy = method.startsWith('cp');
// Loaded before the clock starts, and not for a copy.
const { convert } = isCopy ? {} : await import('safetensors-mmap');

const converted = (verify) => convert(path, target, { durable: false, verify });
const copied = (source) => execFileSync('cp', ['-r', '--reflink=never', source, target]);
const METHODS = {
  convert: () => converted(true),
  'convert-unverified': () => converted(false),
  reshard: () => convert(path, target, { durable: false, maxShardSize: Number(shardSize) }),
  cp: () => copied(path),
  'cp-folder': () => copied(dirname(path)),
};

const start = performance.now();
await METHODS[method]();
const elapsed = performance.now() - start;
// What `cp` needs is not in this process.
console.log(JSON.stringify(isCopy ? { elapsed } : { elapsed, peak: peakMemory() }));
