// Ends workers that read and write small files all the time. Prints how many descriptors are left open.
// node ended-files.mjs <workers>
import { once } from 'node:events';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { isAlreadyThere, note } from '../../../../build/remote/download/partial-files.js';

const workers = Number(process.argv[2]);

if (isMainThread) {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  const run = async (ms) => {
    const worker = new Worker(fileURLToPath(import.meta.url), { workerData: folder });
    await once(worker, 'message');
    await sleep(ms);
    await worker.terminate();
  };
  await run(0);
  const before = readdirSync('/proc/self/fd').length;
  for (let i = 0; i < workers; i++) await run((4 * i) / workers);
  console.log(JSON.stringify({ left: readdirSync('/proc/self/fd').length - before }));
} else {
  const work = async (name) => {
    const path = join(workerData, name);
    const planned = { name, byteLength: 5, hash: null, version: 'v' };
    writeFileSync(path, 'bytes');
    while (true) {
      await note(path, planned, 'hash');
      await isAlreadyThere(path, planned, undefined);
    }
  };
  for (const name of ['a', 'b', 'c']) void work(name);
  parentPort.postMessage('begun');
}
