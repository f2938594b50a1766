// Makes, drops, moves and detaches buffers of all sizes, in this thread and in workers that are
// terminated meanwhile. An engine aborts when its counter of external memory falls below zero.
// node --expose-gc stress.mjs <seconds>

import { once } from 'node:events';
import process from 'node:process';
import { setTimeout as sleep, setImmediate as yieldNow } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { addon, collect, folder, makeFile, mapPath, report } from './support.mjs';

const MB = 1 << 20;
const SIZES = [1 * MB, 700 * MB, 40_000 * MB].map((size, i) => [`${folder}/${i}`, size]);
const seconds = isMainThread ? Number(process.argv[2]) : workerData.seconds;

async function stress(until) {
  let kept = [];
  let rounds = 0;
  let lowest = Number.POSITIVE_INFINITY;
  for (; performance.now() < until; rounds++) {
    const [path, length] = SIZES[rounds % SIZES.length];
    const mapping = mapPath(path, length);
    const step = Math.floor(length / 20);
    const buffers = Array.from({ length: 20 }, (_, i) =>
      addon.tensorBuffer(mapping, i * step, 1 + Math.floor(Math.random() * Math.min(step, 3e9))),
    );
    const dice = Math.random();
    if (dice < 0.2) addon.detach(mapping, buffers);
    else if (dice < 0.4) addon.release(mapping);
    else if (dice < 0.7) kept.push(...buffers.map((buffer) => buffer.transfer?.() ?? buffer));
    if (dice > 0.9) kept = [];
    if (dice > 0.95) globalThis.gc();
    if (rounds % 3 === 0) await yieldNow();
    lowest = Math.min(lowest, process.memoryUsage().external);
  }
  return { rounds, lowest, kept };
}

if (isMainThread) {
  for (const [i, [, length]] of SIZES.entries()) makeFile(String(i), length);
  const until = performance.now() + seconds * 1000;
  const main = stress(until);
  let workers = 0;
  for (; performance.now() < until; workers++) {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { folder, seconds } });
    await once(worker, 'message');
    await sleep(Math.random() * 200);
    await worker.terminate();
  }
  const { rounds, lowest } = await main;
  await collect();
  report({ rounds, workers, lowest, external: process.memoryUsage().external });
} else {
  // Some engines abort when they are terminated during the first turn of a module with await.
  await yieldNow();
  parentPort.postMessage('ready');
  await stress(performance.now() + seconds * 1000);
}
