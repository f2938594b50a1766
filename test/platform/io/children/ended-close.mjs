// Ends workers whose closing of a file waits for the only thread of the pool. Prints how many descriptors are left.
// UV_THREADPOOL_SIZE=1 node ended-close.mjs
import { pbkdf2 } from 'node:crypto';
import { once } from 'node:events';
import { openSync, readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isMainThread, parentPort, Worker } from 'node:worker_threads';
import { closeFile } from '../../../../build/platform/io/file-calls.js';
import { closeAsync } from '../../../../build/platform/io/pool-calls.js';
import { runAsync } from '../../../../build/work/work.js';

const SELF = fileURLToPath(import.meta.url);

function descriptorsOfSelf() {
  return readdirSync('/proc/self/fd').length;
}

if (isMainThread) {
  const start = async () => {
    const worker = new Worker(SELF);
    await once(worker, 'message');
    return worker;
  };
  await (await start()).terminate();
  const before = descriptorsOfSelf();
  const workers = [await start(), await start()];
  const busy = promisify(pbkdf2)('', '', 300_000, 64, 'sha512');
  const asked = workers.map((worker) => once(worker, 'message'));
  for (const worker of workers) worker.postMessage('close');
  await Promise.all(asked);
  await Promise.all(workers.map((worker) => worker.terminate()));
  await busy;
  console.log(JSON.stringify({ left: descriptorsOfSelf() - before }));
} else {
  parentPort.once('message', () => {
    void closeAsync(openSync(SELF));
    void runAsync(closeFile(openSync(SELF)), undefined);
    parentPort.postMessage('asked');
  });
  parentPort.postMessage('ready');
}
