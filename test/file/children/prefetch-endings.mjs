// Cuts, closes or drops a file while it is prefetched. Prints the result of the promise, if it settled.
import { truncateSync } from 'node:fs';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { safeOpen } from '../../../lib/index.js';
import { collect, counters } from '../../support/process-memory.mjs';

const [path, ending, rounds] = isMainThread ? process.argv.slice(2) : [workerData, 'wait'];

/** Ends a prefetch that has just begun. */
const endings = {
  close: (file) => file.close(),
  detach: (file) => file.close({ detach: true }),
  'detach-views'(file) {
    globalThis.kept = file.getTensors();
    for (const tensor of globalThis.kept.values()) tensor.bytes;
    file.close({ detach: true });
  },
  truncate: () => truncateSync(path, 4096),
};

if (ending in endings) {
  const before = counters(path);
  let file = safeOpen(path);
  const running = file.prefetch();
  endings[ending](file);
  let code = 'none';
  try {
    await running;
  } catch (error) {
    code = error.code;
  }
  const { ok } = file;
  file.close();
  file = undefined;
  await collect();
  const after = counters(path);
  const left = {
    descriptors: after.descriptors - before.descriptors,
    fileMappings: after.fileMappings,
  };
  console.log(JSON.stringify({ code, ok, left }));
}

if (ending === 'unreadable') {
  // Below the check of the size: the kernel is asked for pages that are gone, without a guard.
  const { loadAddon } = await import('../../../build/platform/addon/load.js');
  const { openRegularFile } = await import('../../../build/platform/io/opened-file.js');
  const { runSync } = await import('../../../build/work/work.js');
  const { addon } = loadAddon();
  const { fd, byteLength } = runSync(openRegularFile(path, path));
  const mapping = addon.mapFile(fd, byteLength, false);
  truncateSync(path, 4096);
  const codes = [];
  for (const [begin, length] of [
    [0, 4096],
    [0, byteLength],
    [byteLength - 1, 1],
  ]) {
    await addon.populate(mapping, begin, length).then(
      () => codes.push('none'),
      (error) => codes.push(error.code),
    );
  }
  console.log(JSON.stringify(codes));
}

if (ending === 'wait') {
  const file = safeOpen(path);
  parentPort.postMessage('running');
  for (;;) await file.prefetch();
}

function startWorker() {
  const worker = new Worker(new URL(import.meta.url), { workerData: path });
  return new Promise((resolve) => worker.once('message', () => resolve(worker)));
}

if (ending === 'worker-terminate') {
  for (let i = 0; i < Number(rounds); i++) {
    const workers = await Promise.all(Array.from({ length: 4 }, startWorker));
    await Promise.all(workers.map((worker) => worker.terminate()));
  }
  await collect();
  console.log(JSON.stringify(counters(path).fileMappings));
}
if (ending === 'worker-alive') {
  await startWorker();
  process.exit(0);
}
if (ending === 'exit') {
  safeOpen(path).prefetch();
  process.exit(7);
}
if (ending === 'return') safeOpen(path).prefetch();
