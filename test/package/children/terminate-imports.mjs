// Terminates `argv[2]` workers while they import the package, which is an entry and its core, and as many while they import two
// empty modules of the same length. Prints the files whose descriptors are left.
import {
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
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
  return paths.filter((path) => /\.(?:js|json|mjs|node)$/.test(path)).map((path) => basename(path));
}

if (isMainThread) {
  const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
  const [entry, core] = ['index', 'core'].map((name) =>
    fileURLToPath(new URL(`../../../lib/${name}.js`, import.meta.url)),
  );
  const nothing = join(folder, 'nothing.mjs');
  writeFileSync(nothing, `import './nothing-core.mjs';${'/'.repeat(readFileSync(entry).length)}`);
  writeFileSync(join(folder, 'nothing-core.mjs'), '/'.repeat(readFileSync(core).length));
  for (let i = 0; i < Number(process.argv[2]); i++) {
    // At different moments of the import.
    await Promise.all([entry, nothing].map((path) => terminate(path, i % 12)));
  }
  console.log(JSON.stringify(openFiles()));
  rmSync(folder, { recursive: true });
} else {
  parentPort.postMessage('importing');
  await import(workerData);
}
