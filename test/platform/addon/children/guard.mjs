// Truncates files while they are read. node guard.mjs <scenario> [rounds]

import { once } from 'node:events';
import { copyFileSync, openSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import zlib from 'node:zlib';
import { addon, fileState, folder, makeFile, mapLines, mapPath, report } from './support.mjs';

const PAGE = 4096;
const MB = 1 << 20;
const GB = 1 << 30;

const deflate = promisify(zlib.deflate);
const inflate = promisify(zlib.inflate);

/** A file of sevens. */
function makeSevens(name, byteLength) {
  const path = join(folder, name);
  writeFileSync(path, new Uint8Array(byteLength).fill(7));
  return path;
}

function openBytes(path, byteLength, guard = true) {
  const mapping = mapPath(path, byteLength, guard);
  return { mapping, bytes: new Uint8Array(addon.tensorBuffer(mapping, 0, byteLength)) };
}

function sum(bytes, step = 1) {
  let total = 0;
  for (let i = 0; i < bytes.length; i += step) total += bytes[i];
  return total;
}

function startWorker(scenario) {
  return new Worker(fileURLToPath(import.meta.url), { workerData: { folder, scenario } });
}

const workerScenarios = {
  reader() {
    const { mapping, bytes } = openBytes(join(folder, 'a'), 64 * MB);
    const first = sum(bytes, PAGE);
    parentPort.postMessage('ready');
    let last = first;
    for (let round = 0; round < 100_000 && last === first; round++) last = sum(bytes, PAGE);
    parentPort.postMessage({ first, last, ...fileState(mapping) });
  },
};

const scenarios = {
  async loop() {
    const path = makeSevens('a', 16 * MB);
    const { mapping, bytes } = openBytes(path, 16 * MB);
    const before = { sum: sum(bytes), ...fileState(mapping) };
    let total = 0;
    for (let i = 0; i < bytes.length; i++) {
      if (i === 4 * MB) truncateSync(path, 8 * MB + 5);
      total += bytes[i];
    }
    report({ before, after: { sum: total, ...fileState(mapping) } });
  },
  async unread() {
    const path = makeSevens('a', MB);
    const { mapping, bytes } = openBytes(path, MB);
    truncateSync(path, 0);
    const before = fileState(mapping);
    bytes.set([1, 2, 3], 5 * PAGE);
    report({
      before,
      after: fileState(mapping),
      written: [...bytes.subarray(5 * PAGE, 5 * PAGE + 4)],
    });
  },
  async worker() {
    const path = makeSevens('a', 64 * MB);
    const worker = startWorker('reader');
    await once(worker, 'message');
    truncateSync(path, 32 * MB);
    const [result] = await once(worker, 'message');
    report(result);
  },
  async 'thread-pool'() {
    const path = makeSevens('a', 8 * MB);
    const { mapping, bytes } = openBytes(path, 8 * MB);
    truncateSync(path, 4 * MB);
    const outputs = await Promise.all(
      Array.from({ length: 4 }, () => deflate(bytes, { level: 1 })),
    );
    const sums = [];
    for (const output of outputs) sums.push(sum(await inflate(output)));
    report({ sums, ...fileState(mapping) });
  },
  async 'file-write'() {
    const path = makeSevens('a', 8 * MB);
    const { bytes } = openBytes(path, 8 * MB);
    truncateSync(path, 4 * MB);
    const file = await open(join(folder, 'copy'), 'w');
    const written = await file.write(bytes.subarray(6 * MB)).then(
      ({ bytesWritten }) => bytesWritten,
      ({ code }) => code,
    );
    await file.close();
    report({ written });
  },
  async backwards() {
    const path = makeFile('a', GB);
    const { mapping, bytes } = openBytes(path, GB);
    const before = mapLines().length;
    truncateSync(path, 3 * PAGE + 1);
    let total = 0;
    for (let i = bytes.length - 1; i >= 0; i -= 2 * PAGE) total += bytes[i];
    report({ total, lines: mapLines().length - before, ...fileState(mapping) });
  },
  /** Truncated three times: writes into the zeros of the first time stay. */
  async again() {
    const path = makeSevens('a', MB);
    const { bytes } = openBytes(path, MB);
    truncateSync(path, 128 * PAGE);
    bytes[200 * PAGE] = 5;
    truncateSync(path, 64 * PAGE);
    const gap = bytes[100 * PAGE];
    const kept = bytes[200 * PAGE];
    truncateSync(path, 32 * PAGE);
    report({ gap, kept, last: sum(bytes) });
  },
  /** Without its descriptor, which a handle closes when it ends, the guard cannot ask for the size. */
  async released() {
    const path = makeSevens('a', 64 * MB);
    const openReleased = () => {
      const { mapping, bytes } = openBytes(path, 64 * MB);
      addon.release(mapping);
      return bytes;
    };
    const [forwards, backwards, written] = [openReleased(), openReleased(), openReleased()];
    const before = { sum: sum(forwards, PAGE), lines: mapLines().length };
    truncateSync(path, 32 * MB);
    written[48 * MB] = 5;
    truncateSync(path, 16 * MB + 5);
    let total = 0;
    for (let i = backwards.length - 1; i >= 0; i -= 2 * PAGE) total += backwards[i];
    report({
      before: before.sum,
      after: [sum(forwards), total, sum(written)],
      lines: mapLines().length - before.lines,
    });
  },
  async 'detach-while-faulting'() {
    const path = makeSevens('a', 64 * MB);
    for (let round = 0; round < Number(process.argv[3]); round++) {
      const mapping = mapPath(path, 64 * MB);
      const buffers = Array.from({ length: 4 }, (_, i) =>
        addon.tensorBuffer(mapping, i * 16 * MB, 16 * MB),
      );
      truncateSync(path, 16 * MB);
      const options = { level: 1, chunkSize: 32 * MB };
      const work = buffers.map((buffer) => deflate(new Uint8Array(buffer), options));
      addon.detach(mapping, buffers);
      await Promise.all(work);
      truncateSync(path, 64 * MB);
    }
    report('done');
  },
  async unguarded() {
    const path = makeSevens('a', MB);
    openBytes(path, MB, true);
    const { bytes } = openBytes(path, MB, false);
    truncateSync(path, 0);
    report(bytes[0]);
  },
  async 'signal-from-outside'() {
    openBytes(makeSevens('a', MB), MB);
    process.kill(process.pid, 'SIGBUS');
    setTimeout(() => report('survived'), 2000);
  },
  async 'earlier-handler'() {
    process.on('SIGBUS', () => {
      report('handled');
      process.exit(0);
    });
    openBytes(makeSevens('a', MB), MB);
    process.kill(process.pid, 'SIGBUS');
    setTimeout(() => report('lost'), 2000);
  },
  /** Two copies of the addon in one process: each passes the other's faults on. */
  async 'two-copies'() {
    const copy = join(folder, 'copy.node');
    const addon = `../../../../prebuilds/${process.platform}-${process.arch}/safetensors-mmap.node`;
    copyFileSync(fileURLToPath(new URL(addon, import.meta.url)), copy);
    const other = createRequire(import.meta.url)(copy);
    const path = makeSevens('a', MB);
    const first = openBytes(path, MB);
    const mapping = other.mapFile(openSync(path), MB, true);
    const second = new Uint8Array(other.tensorBuffer(mapping, 0, MB));
    truncateSync(path, PAGE);
    report([sum(first.bytes), sum(second)]);
  },
};

if (!isMainThread) {
  workerScenarios[workerData.scenario]();
} else {
  await scenarios[process.argv[2]]();
}
