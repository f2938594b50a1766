// Terminates workers at various moments while they load the addon. Prints 'some' when some of them,
// but not all, had loaded it by then. node terminated-load.mjs <workers>
import process from 'node:process';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { loadAddon } from '../../../../build/platform/addon/load.js';

const workers = Number(process.argv[2]);
// More than loading takes: some workers finish it.
const LONGEST_DELAY_MS = 3;

if (isMainThread) {
  let loaded = 0;
  for (let i = 0; i < workers; i++) {
    const begun = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(new URL(import.meta.url), { workerData: begun });
    worker.on('message', () => loaded++);
    await new Promise((resolve) => worker.once('online', resolve));
    // A message from the worker would come too late.
    Atomics.wait(begun, 0, 0);
    const end = performance.now() + (i / workers) * LONGEST_DELAY_MS;
    while (performance.now() < end);
    await worker.terminate();
  }
  console.log(JSON.stringify(loaded > 0 && loaded < workers ? 'some' : `${loaded} of ${workers}`));
} else {
  Atomics.store(workerData, 0, 1);
  Atomics.notify(workerData, 0);
  loadAddon();
  parentPort.postMessage('loaded');
}
