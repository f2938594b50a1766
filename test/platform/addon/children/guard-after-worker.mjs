// The guard outlives the worker that installed it; the main thread loads the addon later or never.
// node guard-after-worker.mjs <scenario> <path of a file of 1 MiB>

import { once } from 'node:events';
import { openSync, truncateSync } from 'node:fs';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { isMainThread, Worker } from 'node:worker_threads';

const [, , scenario, path] = process.argv;
const MB = 1 << 20;

async function openBytes() {
  const { loadAddon } = await import('../../../../build/platform/addon/load.js');
  const { addon } = loadAddon();
  const mapping = addon.mapFile(openSync(path), MB, true);
  return new Uint8Array(addon.tensorBuffer(mapping, 0, MB));
}

const scenarios = {
  async signal() {
    process.kill(process.pid, 'SIGBUS');
    setTimeout(() => {}, 2000);
  },
  async truncation() {
    const bytes = await openBytes();
    truncateSync(path, 10);
    process.stdout.write(JSON.stringify([bytes[0], bytes[MB - 1]]));
  },
};

if (isMainThread) {
  const worker = new Worker(fileURLToPath(import.meta.url), { argv: process.argv.slice(2) });
  const [code] = await once(worker, 'exit');
  if (code !== 0) process.exit(code);
  await scenarios[scenario]();
} else {
  (await openBytes())[0]++;
}
