// Terminates workers while they detach buffers, by the addon or by closing a file; prints how many.
// node terminated-detach.mjs <addon or file> <path of a file> <workers>
import process from 'node:process';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { safeOpen } from '../../../../lib/index.js';

// Detaching takes about as long as the longest delay.
const BUFFERS = 20_000;
const LONGEST_DELAY_MS = 20;

/** Makes the buffers, and returns the function that detaches them. */
async function prepare(how, path) {
  if (how === 'addon') {
    const { addon, mapPath } = await import('./support.mjs');
    const mapping = mapPath(path, BUFFERS);
    const buffers = Array.from({ length: BUFFERS }, (_, i) => addon.tensorBuffer(mapping, i, 1));
    return () => addon.detach(mapping, buffers);
  }
  const file = safeOpen(path);
  globalThis.kept = [...file.getTensor('t').chunks({ maxByteLength: 1 })].slice(0, BUFFERS);
  return () => file.close({ detach: true });
}

if (isMainThread) {
  const [how, path, count] = process.argv.slice(2);
  for (let i = 0; i < Number(count); i++) {
    const begun = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(new URL(import.meta.url), { workerData: { how, path, begun } });
    await new Promise((resolve) => worker.once('online', resolve));
    // A message from the worker would come too late.
    Atomics.wait(begun, 0, 0);
    const end = performance.now() + (i / Number(count)) * LONGEST_DELAY_MS;
    while (performance.now() < end);
    await worker.terminate();
  }
  console.log(count);
} else {
  const { how, path, begun } = workerData;
  const detach = await prepare(how, path);
  Atomics.store(begun, 0, 1);
  Atomics.notify(begun, 0);
  detach();
  for (;;);
}
