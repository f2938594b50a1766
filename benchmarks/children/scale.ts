/**
 * Does what only few programs do to a library. Arguments: METHOD PATH [INDEX]
 * `huge` reads the last tensor of a huge file, `files` a byte of every tensor of every file in a
 * folder, `workers` one tensor of one file in many threads that have opened it each.
 */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { type SafetensorsFile, safeOpen } from 'safetensors-mmap';
import { type Memory, readMemory } from '../memory.js';
import { touchWords } from './touch-words.js';

/** The line this child prints. */
export interface ScaleResult {
  /** Wall time in ms. */
  readonly elapsed: number;
  /** What was read, to be compared between readers or between threads. */
  readonly sum: string;
  readonly before: Memory | undefined;
  readonly after: Memory | undefined;
}

const THREADS = 64;
const held: unknown[] = [];

function readHuge(path: string): string {
  const file = safeOpen(path);
  const { bytes } = file.getTensor(file.offsetKeys().at(-1) ?? '');
  held.push(file, bytes);
  return `${bytes.length + (bytes[0] ?? 0) + (bytes.at(-1) ?? 0)}`;
}

function firstBytes(file: SafetensorsFile): number {
  let sum = 0;
  for (const [, { bytes }] of file) {
    sum += bytes[0] ?? 0;
    held.push(bytes);
  }
  return sum;
}

function readFiles(folder: string): string {
  const sums = readdirSync(folder).map((name) => firstBytes(safeOpen(join(folder, name))));
  return `${sums.reduce((total, sum) => total + sum, 0)}`;
}

/** The sum that all threads have found, measured while all of them hold their tensor. */
async function readInThreads(path: string, index: number): Promise<string> {
  const workers = Array.from(
    { length: THREADS },
    () => new Worker(new URL(import.meta.url), { workerData: { path, index } }),
  );
  const sums = await Promise.all(
    workers.map(
      (worker) =>
        new Promise<bigint>((resolve, reject) => {
          worker.once('message', resolve);
          worker.once('error', reject);
        }),
    ),
  );
  const distinct = new Set(sums);
  if (distinct.size !== 1) throw new Error('the threads have read different bytes');
  held.push(workers);
  return `${sums[0]} in ${workers.length} threads`;
}

async function run(): Promise<void> {
  const [method, path = '', index = '0'] = process.argv.slice(2);
  const before = readMemory();
  const start = performance.now();
  const sum =
    method === 'huge'
      ? readHuge(path)
      : method === 'files'
        ? readFiles(path)
        : await readInThreads(path, Number(index));
  const elapsed = performance.now() - start;
  const result: ScaleResult = { elapsed, sum, before, after: readMemory() };
  console.log(JSON.stringify(result));
  process.exit();
}

if (isMainThread) {
  await run();
} else {
  const { path, index } = workerData as { path: string; index: number };
  const file = safeOpen(path);
  const { bytes } = file.getTensor(file.offsetKeys()[index] ?? '');
  parentPort?.postMessage(touchWords(bytes));
  // The port keeps the thread, and with it the tensor, until the main thread ends the process.
  parentPort?.on('message', () => bytes.length);
}
