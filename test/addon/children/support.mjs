// What the scripts of this folder share. Each works in a folder of its own and prints one line of
// JSON.

import { closeSync, ftruncateSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isMainThread, workerData } from 'node:worker_threads';
import { loadAddon } from '../../../lib/addon/load.js';

const load = loadAddon();
if ('unavailable' in load) throw new Error(load.unavailable);
export const { addon } = load;

/** A folder that is removed at exit; a worker uses the folder of the thread that started it. */
export const folder = isMainThread
  ? mkdtempSync(join(tmpdir(), 'safetensors-mmap-'))
  : workerData.folder;
if (isMainThread) process.once('exit', () => rmSync(folder, { recursive: true, force: true }));

/** Makes a sparse file of zeros. */
export function makeFile(name, byteLength) {
  const path = join(folder, name);
  const fd = openSync(path, 'w');
  ftruncateSync(fd, byteLength);
  closeSync(fd);
  return path;
}

export function mapPath(path, byteLength, guard = true) {
  const fd = openSync(path);
  try {
    return addon.mapFile(fd, byteLength, guard);
  } finally {
    closeSync(fd);
  }
}

export function fileState(mapping) {
  const state = new Float64Array(4);
  addon.readFileState(mapping, state);
  return { size: state[0], truncated: state[3] === 1 };
}

/** Collects garbage and lets Node run the finalizers of buffers, which it does from the event loop. */
export async function collect() {
  for (let round = 0; round < 5; round++) {
    globalThis.gc();
    for (let turn = 0; turn < 5; turn++) await nextTurn();
  }
}

/** Figures of this process from /proc: `Vm…` and `Rss…` in bytes. */
export function processStatus(field) {
  const line = readFileSync('/proc/self/status', 'utf8').match(
    new RegExp(`^${field}:\\s+(\\d+) kB`, 'm'),
  );
  return Number(line[1]) * 1024;
}

export function mapLines() {
  return readFileSync('/proc/self/maps', 'utf8').split('\n');
}

export function report(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}
