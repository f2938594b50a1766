// Ends workers, or the process, while a load is under way. Prints the descriptors that are left.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { safeOpen } from '../../../lib/index.js';
import { collect, counters } from '../../support/process-memory.mjs';

const [path, storage, ending, workers] = isMainThread
  ? process.argv.slice(2)
  : [...workerData, 'wait'];

if (ending === 'wait') {
  const file = safeOpen(path, { storage });
  parentPort.postMessage('running');
  for (;;) await file.readTensors();
}

if (ending === 'worker-terminate') {
  const before = counters(path);
  for (let i = 0; i < Number(workers); i++) {
    const worker = new Worker(new URL(import.meta.url), { workerData: [path, storage] });
    await new Promise((resolve) => worker.once('message', resolve));
    await worker.terminate();
  }
  await collect();
  console.log(JSON.stringify(counters(path).descriptors - before.descriptors));
}
if (ending === 'exit') {
  safeOpen(path, { storage }).readTensors();
  process.exit(7);
}
