/**
 * A worker thread. It opens the table by itself: nothing is copied between threads but answers, and the system keeps
 * the pages of the file once, for all threads and processes.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { safeOpenAsync } from 'safetensors-mmap';
import { TENSOR } from './make-table.js';

async function open() {
  const file = await safeOpenAsync(workerData.path);
  try {
    const table = file.getTensor(TENSOR);
    if (table.shape.length !== 2) throw new Error(`${workerData.path}: ${TENSOR} is no table`);
    return { file, table, version: file.metadata?.get('version') ?? 'unknown' };
  } catch (error) {
    file.close();
    throw error;
  }
}

let current = await open();
let reloading = Promise.resolve();

async function swap() {
  const { file } = current;
  current = await open();
  // Jobs that run still have their tensor. The old mapping goes when the last of them is done.
  file.close();
  return { version: current.version, shape: current.table.shape };
}

/** The mean of some rows, of length 1. */
function meanOf(values, width) {
  const mean = new Float32Array(width);
  for (let i = 0; i < values.length; i += width) {
    for (let k = 0; k < width; k++) mean[k] += values[i + k];
  }
  let squares = 0;
  for (const value of mean) squares += value * value;
  const scale = squares === 0 ? 0 : 1 / Math.sqrt(squares);
  return mean.map((value) => value * scale);
}

// Each job takes `current` once: a table that is swapped in meanwhile cannot mix into its answer.
const jobs = {
  async embed({ ids }) {
    const { table, version } = current;
    const [, width] = table.shape;
    return { version, values: meanOf(await table.takeFloat32Async(ids), width) };
  },
  async rows({ ids }) {
    const { table, version } = current;
    const { dtype, shape, bytes } = await table.takeAsync(ids);
    return { version, dtype, shape, values: bytes };
  },
  reload() {
    // One after the other: the last one to begin is the last one to take its place.
    reloading = reloading.catch(() => {}).then(swap);
    return reloading;
  },
};

parentPort.on('message', async ({ id, job, input }) => {
  try {
    const answer = await jobs[job](input);
    parentPort.postMessage({ id, answer }, answer.values ? [answer.values.buffer] : []);
  } catch (error) {
    parentPort.postMessage({ id, error: { code: error.code, message: error.message } });
  }
});

parentPort.postMessage({ ready: { version: current.version, shape: current.table.shape } });
