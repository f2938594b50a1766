/**
 * Calls that take long, everything imported, each in a process of its own. Arguments: METHOD FILE ARGUMENTS….
 * Prints the ms as `elapsed`, and what the method tells besides. The `cp` methods copy the files as they are,
 * `…-durable` ones sync everything.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { peakMemory } from './memory.mjs';

const [method, path, ...args] = process.argv.slice(2);
// Loaded before the clock starts, and not for a copy.
const entry = method.startsWith('convert') ? 'safetensors-mmap/convert' : 'safetensors-mmap';
const { convert, openCheckpoint, reshard } = method.startsWith('cp') ? {} : await import(entry);

function run(file, ...args) {
  const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8' });
  if (status !== 0) throw error ?? new Error(stderr.trim());
}

function copyFolder(durable) {
  const [source, target] = [dirname(path), args[0]];
  mkdirSync(target);
  const names = readdirSync(source);
  run('cp', '--reflink=never', ...names.map((name) => join(source, name)), target);
  if (durable) run('sync', ...names.map((name) => join(target, name)), target);
}

const reshardInto = (durable) => {
  const [target, maxShardSize] = args;
  return reshard(path, target, { maxShardSize: Number(maxShardSize), durable });
};

async function see(use = () => {}) {
  const checkpoint = openCheckpoint(path);
  await use(checkpoint);
  return { tensors: checkpoint.size };
}

async function convertTo(verify) {
  await convert(path, args[0], { durable: false, verify });
  return { peak: peakMemory() };
}

const METHODS = {
  open: () => see(),
  verify: () => see((checkpoint) => checkpoint.verify()),
  tensor: () => see((checkpoint) => Uint8Array.from(checkpoint.getTensor(args[0]).bytes)),
  reshard: () => reshardInto(false),
  'reshard-durable': () => reshardInto(true),
  'cp-folder': () => copyFolder(false),
  'cp-folder-durable': () => copyFolder(true),
  convert: () => convertTo(true),
  'convert-unverified': () => convertTo(false),
  cp: () => run('cp', '--reflink=never', path, args[0]),
};

const start = performance.now();
const told = await METHODS[method]();
const elapsed = performance.now() - start;
console.log(JSON.stringify({ ...(method.startsWith('reshard') ? {} : told), elapsed }));
