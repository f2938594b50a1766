/**
 * GGUF of one tensor for each block type, and of a model. Arguments: METHOD PATH [TARGET]. `decode` times the blocks of
 * each file of a folder as float32, and prints ms for 1 GB of float32 by type, and the sum of all words; so does
 * `gguf_blocks.py`. `convert` converts a model to F16, and prints the ms, and the most private memory while it ran.
 */
import { readdirSync, rmSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { convert, dequantize, open } from 'safetensors-mmap';
import { readMemory } from './memory.mjs';

const SAMPLE_MS = 5;

async function decode(folder) {
  const result = { bytes: 0 };
  let checksum = 0;
  for (const name of readdirSync(folder).sort()) {
    const model = await dequantize(await open(join(folder, name)));
    const weight = model.getTensor('m.weight');
    const into = new Float32Array(weight.elementCount).fill(1);
    const times = Array.from({ length: 9 }, () => {
      const start = performance.now();
      weight.toFloat32({ into });
      return performance.now() - start;
    });
    result[basename(name, '.gguf')] = times.sort((a, b) => a - b)[4] / (into.byteLength / 1e9);
    result.bytes += into.byteLength;
    for (const word of new Uint32Array(into.buffer)) checksum = (checksum + word) >>> 0;
  }
  return { ...result, checksum };
}

async function convertModel(path, target) {
  let anonymous = 0;
  const sample = () => {
    anonymous = Math.max(anonymous, readMemory()?.anonymous ?? Number.NaN);
  };
  const timer = setInterval(sample, SAMPLE_MS);
  const start = performance.now();
  await convert(path, target, { dequantize: 'F16', durable: false });
  const elapsed = performance.now() - start;
  sample();
  clearInterval(timer);
  const bytes = statSync(target).size;
  rmSync(target);
  return { elapsed, anonymous, bytes };
}

const [method, path, target] = process.argv.slice(2);
const line = method === 'decode' ? await decode(path) : await convertModel(path, target);
console.log(JSON.stringify(line));
for await (const _ of process.stdin);
