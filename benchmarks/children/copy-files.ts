/**
 * Copies files into a new folder by `cp`. Arguments: durable|plain FILE... FOLDER HOLDER; `durable`
 * syncs them and the folder afterwards.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { endHolder, type WriterResult } from './measure-writer.js';

function run(file: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8' });
  if (status !== 0) throw error ?? new Error(stderr.trim());
}

const [durability, ...paths] = process.argv.slice(2);
const holder = paths.pop() ?? '';
const target = paths.pop() ?? '';
await endHolder(holder);
const start = performance.now();
mkdirSync(target);
run('cp', ['--reflink=never', ...paths, target]);
if (durability === 'durable') {
  run('sync', [...paths.map((path) => join(target, basename(path))), target]);
}
// The memory of `cp` is not this process's.
const result: WriterResult = { elapsed: performance.now() - start, extraMemory: null };
console.log(JSON.stringify(result));
