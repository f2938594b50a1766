// Terminates workers while they import the package, and others while they import a module that does
// nothing. Prints the files whose descriptors are left behind.
import { readdirSync, readlinkSync } from 'node:fs';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';

async function terminate(path, afterMs) {
  const worker = new Worker(new URL(import.meta.url), { workerData: path });
  await new Promise((resolve) => worker.once('message', resolve));
  await new Promise((resolve) => setTimeout(resolve, afterMs));
  await worker.terminate();
}

/** The files of this process's descriptors, each as often as it is open. */
function openFiles() {
  const paths = readdirSync('/proc/self/fd').map((descriptor) => {
    try {
      return readlinkSync(`/proc/self/fd/${descriptor}`);
    } catch {
      return ''; // That of the folder itself, which is closed again.
    }
  });
  return paths.filter((path) => /\.(?:js|json|mjs|node)$/.test(path));
}

if (isMainThread) {
  for (let i = 0; i < 200; i++) {
    // At different moments of the import.
    const paths = ['../../../lib/index.js', './nothing.mjs'];
    await Promise.all(paths.map((path) => terminate(path, i % 12)));
  }
  console.log(JSON.stringify(openFiles()));
} else {
  parentPort.postMessage('importing');
  await import(workerData);
}
