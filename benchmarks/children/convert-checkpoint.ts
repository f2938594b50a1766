/**
 * Converts a checkpoint of torch to a safetensors file. Arguments: METHOD SOURCE TARGET. `cp` copies it as
 * it is. Nothing is synced. `convert_checkpoint.py` takes the steps of the reference's script.
 */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

/** The line this child prints. */
export interface ConvertCheckpointResult {
  /** Wall time in ms, everything imported. */
  readonly elapsed: number;
  /** The highest resident memory of the process, in bytes; absent where the system does not tell. */
  readonly peak?: number | undefined;
}

function copy(source: string, target: string): void {
  const { status, stderr, error } = spawnSync('cp', ['--reflink=never', source, target]);
  if (status !== 0) throw error ?? new Error(`${stderr}`);
}

function peakMemory(): number | undefined {
  if (process.platform !== 'linux') return undefined;
  const status = readFileSync('/proc/self/status', 'utf8');
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1024;
}

const [method = '', source = '', target = ''] = process.argv.slice(2);
const options = { durable: false, verify: method === 'verified' };
// Loaded before the clock starts, and not for a copy.
const convert = method === 'cp' ? undefined : (await import('safetensors-mmap/convert')).convert;
const start = performance.now();
if (convert === undefined) copy(source, target);
else await convert(source, target, options);
const elapsed = performance.now() - start;
const result: ConvertCheckpointResult = {
  elapsed,
  peak: method === 'cp' ? undefined : peakMemory(),
};
console.log(JSON.stringify(result));
