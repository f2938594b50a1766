// Opens a file in workers and ends them; prints how many descriptors and mappings of the file each step leaves.
import { readdirSync, readFileSync, readlinkSync, realpathSync } from 'node:fs';
import process from 'node:process';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { safeOpen } from 'safetensors-mmap';

const FILES = 5;

if (isMainThread) {
  const [path, tensor] = process.argv.slice(2);
  const real = realpathSync(path);
  const linkOf = (fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return undefined;
    }
  };
  const count = () => ({
    descriptors: readdirSync('/proc/self/fd').filter((fd) => linkOf(fd) === real).length,
    mappings: readFileSync('/proc/self/maps', 'utf8')
      .split('\n')
      .filter((line) => line.endsWith(real)).length,
  });
  const own = safeOpen(path);
  const before = own.getTensor(tensor).bytes.join();
  const steps = { before: count() };
  for (const way of ['terminate', 'exit', 'close']) {
    const workers = Array.from(
      { length: 3 },
      () => new Worker(new URL(import.meta.url), { workerData: { path, tensor, way } }),
    );
    const ended = workers.map((worker) => new Promise((done) => worker.once('exit', done)));
    await Promise.all(workers.map((worker) => new Promise((done) => worker.once('message', done))));
    steps[`${way}, open`] = count();
    if (way === 'terminate') for (const worker of workers) worker.terminate();
    else for (const worker of workers) worker.postMessage('end');
    await Promise.all(ended);
    // Deno reports the end of a worker before its environment ends.
    for (let i = 0; i < 200 && count().descriptors > 1; i++) {
      await new Promise((done) => setTimeout(done, 50));
    }
    steps[way] = count();
  }
  // The files of the main thread stay open.
  steps.isSame = own.getTensor(tensor).bytes.join() === before;
  console.log(JSON.stringify(steps));
  process.exit(0);
} else {
  const { path, tensor, way } = workerData;
  // With tensors that are read, and without.
  globalThis.kept = Array.from({ length: FILES }, (_, i) => {
    const file = safeOpen(path);
    return [file, i % 2 === 0 ? file.getTensor(tensor).bytes : undefined];
  });
  parentPort.once('message', () => {
    if (way === 'close') for (const [file] of globalThis.kept) file.close();
    process.exit(0);
  });
  parentPort.postMessage('ready');
}
