// Shared by the scripts of this folder. Each works in a separate folder and prints one line of JSON.

import { closeSync, ftruncateSync, mkdtempSync, openSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { isMainThread, workerData } from 'node:worker_threads';
import { loadAddon } from '../../../../build/platform/addon/load.js';

export { collect, mapLines, processStatus } from '../../../support/process-memory.mjs';

const load = loadAddon();
if (!('addon' in load)) throw new Error(load.reason);
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

export function report(value) {
  process.stdout.write(`${JSON.stringify(value)}\n`);
}
