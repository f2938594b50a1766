// Ends a process, or a worker, in several ways while views and handles are alive.
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { safeOpen } from '../../../lib/index.js';

const [path, ending] = isMainThread ? process.argv.slice(2) : [workerData, 'wait'];

const file = ending.startsWith('worker') ? undefined : safeOpen(path);
globalThis.kept = file && { file, bytes: file.getTensor('t').bytes };
if (ending === 'exit') process.exit(7);
if (ending === 'throw') throw new Error('meant to');
if (ending === 'closed') file.close();
if (ending === 'wait') {
  parentPort.postMessage(globalThis.kept.bytes[1]);
  parentPort.on('message', () => {});
}
if (ending === 'worker-terminate') {
  const workers = Array.from(
    { length: 8 },
    () => new Worker(new URL(import.meta.url), { workerData: path }),
  );
  await Promise.all(
    workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))),
  );
  await Promise.all(workers.map((worker) => worker.terminate()));
  globalThis.gc();
  console.log('terminated');
}
if (ending === 'worker-alive') {
  const worker = new Worker(new URL(import.meta.url), { workerData: path });
  await new Promise((resolve) => worker.once('message', resolve));
  process.exit(0);
}
