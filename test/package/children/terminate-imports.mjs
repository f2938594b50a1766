// Terminates workers while they import the package. Prints the descriptors left behind.
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { collect, counters } from '../../support/process-memory.mjs';

if (isMainThread) {
  const before = counters('').descriptors;
  for (let i = 0; i < 200; i++) {
    const worker = new Worker(new URL(import.meta.url));
    await new Promise((resolve) => worker.once('message', resolve));
    // At different moments of the import.
    await new Promise((resolve) => setTimeout(resolve, i % 12));
    await worker.terminate();
  }
  await collect();
  console.log(JSON.stringify(counters('').descriptors - before));
} else {
  parentPort.postMessage('importing');
  await import('../../../lib/index.js');
}
