// Lifetimes of mappings, descriptors and buffers. node --expose-gc lifetime.mjs <scenario> [rounds]

import { once } from 'node:events';
import { fstatSync, openSync, readdirSync } from 'node:fs';
import process from 'node:process';
import { setImmediate as yieldNow } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import zlib from 'node:zlib';
import {
  addon,
  collect,
  folder,
  makeFile,
  mapLines,
  mapPath,
  processStatus,
  report,
} from './support.mjs';

const PAGE = 4096;
const MB = 1 << 20;

function resources() {
  return {
    descriptors: readdirSync('/proc/self/fd').length,
    mappings: mapLines().filter((line) => line.includes(folder)).length,
    lines: mapLines().length,
    anonymous: processStatus('RssAnon'),
  };
}

/**
 * Leftovers of `rounds` calls of `work`, after `warmUp` calls that fill the caches. The smaller figure of two series:
 * a leak grows in both, the engine's own heap may grow in only one.
 */
async function leftBehind(work, warmUp, rounds) {
  for (let i = 0; i < warmUp; i++) await work(i);
  await collect();
  const states = [resources()];
  for (let series = 0; series < 2; series++) {
    for (let i = 0; i < rounds; i++) await work(i);
    await collect();
    states.push(resources());
  }
  const [start, middle, end] = states;
  const least = (key) => Math.min(middle[key] - start[key], end[key] - middle[key]);
  return Object.fromEntries(Object.keys(start).map((key) => [key, least(key)]));
}

function bufferOver(path, byteLength = MB) {
  const mapping = mapPath(path, byteLength);
  return { mapping, buffer: addon.tensorBuffer(mapping, 1, byteLength - 1) };
}

async function inWorker(scenario) {
  const worker = new Worker(fileURLToPath(import.meta.url), { workerData: { folder, scenario } });
  await once(worker, 'message');
  return worker;
}

const workerScenarios = {
  views(path) {
    globalThis.kept = Array.from({ length: 100 }, () => bufferOver(path));
    parentPort.postMessage('ready');
    setInterval(() => globalThis.kept, 1000);
  },
  closer(path) {
    addon.release(mapPath(path, MB));
    parentPort.once('message', () => {});
    parentPort.postMessage('ready');
  },
  deflate(path) {
    const { buffer } = bufferOver(path, 256 * MB);
    for (let i = 0; i < 4; i++) zlib.deflate(new Uint8Array(buffer), { level: 9 }, () => {});
    setTimeout(() => parentPort.postMessage('ready'), 20);
  },
};

const scenarios = {
  async 'open-and-release'() {
    const path = makeFile('a', MB);
    const work = async (i) => {
      addon.release(mapPath(path, MB));
      if (i % 100 === 99) await yieldNow();
    };
    report(await leftBehind(work, 50_000, 100_000));
  },
  async 'open-and-drop'() {
    const path = makeFile('a', MB);
    const work = async (i) => {
      const { mapping, buffer } = bufferOver(path);
      for (let n = 0; n < 20; n++) addon.tensorBuffer(mapping, n, PAGE);
      new Uint8Array(buffer)[PAGE] = 1;
      if (i % 500 === 499) await collect();
    };
    report(await leftBehind(work, 500, 5000));
  },
  async 'drop-handle-only'() {
    const path = makeFile('a', MB);
    report(await leftBehind(() => void mapPath(path, MB), 500, 5000));
  },
  /** No forced collections, and no other reason for the engine to collect. */
  async 'drop-and-turn'() {
    const path = makeFile('a', PAGE);
    const begin = resources().descriptors;
    let most = 0;
    for (let i = 0; i < 3000; i++) {
      mapPath(path, PAGE);
      await yieldNow();
      if (i % 10 === 0) most = Math.max(most, readdirSync('/proc/self/fd').length - begin);
    }
    await collect();
    report({ most, left: readdirSync('/proc/self/fd').length - begin });
  },
  async 'released-with-views'() {
    const path = makeFile('a', MB);
    const before = resources();
    let bytes = [];
    (() => {
      const { mapping, buffer } = bufferOver(path);
      bytes = [new Uint8Array(buffer)];
      addon.release(mapping);
    })();
    await collect();
    const held = resources();
    const read = bytes[0][MB - 2];
    bytes = [];
    await collect();
    const after = resources();
    report({
      read,
      held: held.mappings - before.mappings,
      after: after.mappings - before.mappings,
      descriptors: after.descriptors - before.descriptors,
    });
  },
  async 'exit-with-views'() {
    const path = makeFile('a', MB);
    globalThis.kept = Array.from({ length: 100 }, () => bufferOver(path));
    globalThis.open = Array.from({ length: 100 }, () => mapPath(path, MB));
    report('done');
  },
  async 'process-exit'() {
    await scenarios['exit-with-views']();
    zlib.deflate(new Uint8Array(globalThis.kept[0].buffer), () => {});
    process.exit(3);
  },
  async 'detached-at-exit'() {
    const path = makeFile('a', MB);
    for (let i = 0; i < 10; i++) {
      const { mapping, buffer } = bufferOver(path);
      addon.detach(mapping, [buffer]);
    }
    report('done');
  },
  /** When the worker ends, others have the numbers of the descriptors that it closed. */
  async 'descriptors-of-a-worker'() {
    const path = makeFile('closer', MB);
    const worker = await inWorker('closer');
    const descriptors = Array.from({ length: 20 }, () => openSync(path));
    worker.postMessage('end');
    await once(worker, 'exit');
    report(descriptors.every((fd) => fstatSync(fd).size === MB));
  },
  async 'workers-terminated'() {
    makeFile('views', MB);
    makeFile('deflate', 256 * MB);
    const work = async (i) => {
      const worker = await inWorker(i % 2 === 0 ? 'views' : 'deflate');
      await worker.terminate();
    };
    const { descriptors, mappings } = await leftBehind(work, 2, Number(process.argv[3]));
    report({ descriptors, mappings });
  },
};

if (isMainThread) {
  await scenarios[process.argv[2]]();
} else {
  workerScenarios[workerData.scenario](`${folder}/${workerData.scenario}`);
}
