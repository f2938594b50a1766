// Cuts a file short while loops of this thread or a worker read it. Prints the bytes they saw.
import { truncateSync } from 'node:fs';
import { isMainThread, Worker, workerData } from 'node:worker_threads';
import { safeOpen } from '../../../lib/index.js';

const [path, where, guard] = isMainThread ? process.argv.slice(2) : [workerData, 'main', 'guarded'];

function readTruncated() {
  const file = safeOpen(path, { guard: guard === 'guarded' });
  const tensor = file.getTensor('t');
  const bytes = tensor.bytes;
  const end = bytes.length - 1;
  const before = [bytes[1], bytes[end]];
  truncateSync(path, 4096);
  let sum = 0;
  for (let i = 8192; i < bytes.length; i++) sum += bytes[i];
  bytes[end] = 5;
  const refused = [];
  for (const use of [() => file.getTensor('t'), () => file.getTensors()]) {
    try {
      use();
    } catch (error) {
      refused.push(error.code);
    }
  }
  console.log(
    JSON.stringify({ before, kept: bytes[1], sum, written: bytes[end], refused, ok: file.ok }),
  );
}

if (where === 'main') readTruncated();
if (where === 'worker') new Worker(new URL(import.meta.url), { workerData: path });
if (where === 'after-worker') {
  // The addon was loaded first by a worker that has gone, the guard's handler with it.
  const worker = new Worker(
    `const { workerData } = require('node:worker_threads');
     import(workerData.library).then(({ safeOpen }) => safeOpen(workerData.path).getTensor('t').bytes[0]);`,
    {
      eval: true,
      workerData: { path, library: new URL('../../../lib/index.js', import.meta.url).href },
    },
  );
  await new Promise((resolve) => worker.once('exit', resolve));
  readTruncated();
}
