/**
 * Writes a checkpoint into another folder. Arguments: METHOD INDEX TARGET SHARD_BYTES. `cp…` copies the
 * files as they are; with `…-durable` everything is synced, too.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { reshard } from 'safetensors-mmap';

/** The line this child prints. */
export interface ReshardResult {
  /** Wall time in ms, everything imported. */
  readonly elapsed: number;
}

function run(file: string, args: readonly string[]): void {
  const { status, stderr, error } = spawnSync(file, args, { encoding: 'utf8' });
  if (status !== 0) throw error ?? new Error(stderr.trim());
}

function copy(source: string, target: string, durable: boolean): void {
  mkdirSync(target);
  const names = readdirSync(source);
  run('cp', ['--reflink=never', ...names.map((name) => join(source, name)), target]);
  if (durable) run('sync', [...names.map((name) => join(target, name)), target]);
}

const [method = '', index = '', target = '', maxShardSize = ''] = process.argv.slice(2);
const durable = method.endsWith('-durable');
const start = performance.now();
if (method.startsWith('cp')) copy(dirname(index), target, durable);
else await reshard(index, target, { maxShardSize: Number(maxShardSize), durable });
const result: ReshardResult = { elapsed: performance.now() - start };
console.log(JSON.stringify(result));
