// Buffers that V8 does not count. node --expose-gc uncounted-buffers.mjs <scenario> [way]

import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { constants, PerformanceObserver } from 'node:perf_hooks';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import v8 from 'node:v8';
import {
  isMainThread,
  markAsUntransferable,
  parentPort,
  Worker,
  workerData,
} from 'node:worker_threads';
import { emptyBuffers } from '../../../../build/tensor/storage/empty-buffers.js';
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

const MB = 2 ** 20;
const GB = 2 ** 30;
const [, , scenario, way] = process.argv;

/** How often files of this test are mapped. */
function mapped() {
  return mapLines().filter((line) => line.includes(folder)).length;
}

function fileOfSevens() {
  const path = join(folder, 'sevens');
  writeFileSync(path, new Uint8Array(MB).fill(7));
  return path;
}

/** A buffer in place of this one, with the same memory. */
const ways = {
  'transfer()': (buffer) => buffer.transfer(),
  structuredClone: (buffer) => structuredClone(buffer, { transfer: [buffer] }),
};

/** Closes a file and empties its buffers, as `MappedStorage` does. */
function detach(mapping, buffers) {
  const left = [];
  const emptied = emptyBuffers(buffers, (buffer) => left.push(buffer));
  addon.detach(mapping, left, emptied);
}

/** Creates `count` buffers of `byteLength` in a heap with 10 MB of live objects. */
async function make(count, byteLength) {
  const live = Array.from({ length: 100_000 }, (_, i) => ({ i, next: [i, i] }));
  const path = makeFile('sparse', count * byteLength);
  await collect();
  await sleep(50);
  let majors = 0;
  new PerformanceObserver((list) => {
    for (const { detail } of list.getEntries())
      if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) majors++;
  }).observe({ entryTypes: ['gc'] });
  const before = process.memoryUsage().external;
  const begin = performance.now();
  const mapping = mapPath(path, count * byteLength);
  const kept = Array.from({ length: count }, (_, i) =>
    addon.tensorBuffer(mapping, i * byteLength, byteLength),
  );
  const milliseconds = performance.now() - begin;
  const external = Math.round((process.memoryUsage().external - before) / MB);
  await sleep(50);
  report({ majors, milliseconds, external, kept: kept.length + live.length });
}

/** Reads what terminated workers have moved here; returns how many buffers are wrong. */
async function readOfTerminated(count) {
  const moved = [];
  for (let i = 0; i < count; i++) {
    const worker = new Worker(fileURLToPath(import.meta.url), {
      workerData: { folder, role: 'keeper' },
    });
    moved.push((await once(worker, 'message'))[0]);
    await worker.terminate();
  }
  await collect();
  return moved.filter((buffer) => new Uint8Array(buffer).some((byte) => byte !== 7)).length;
}

const scenarios = {
  small: () => make(1000, 20e6),
  large: () => make(894, 134e6),
  /** The worker moves the buffer back. */
  async moved() {
    let mapping = mapPath(fileOfSevens(), MB);
    let buffer = addon.tensorBuffer(mapping, 1, MB - 1);
    const before = new Uint8Array(buffer)[0];
    let held;
    if (way === 'worker') {
      const worker = new Worker(fileURLToPath(import.meta.url), {
        workerData: { folder, role: 'mirror' },
      });
      worker.postMessage(buffer, [buffer]);
      [held] = await once(worker, 'message');
      await worker.terminate();
    } else {
      held = ways[way](buffer);
    }
    const left = buffer.byteLength;
    addon.release(mapping);
    buffer = mapping = undefined;
    await collect();
    const seen = { before, left, mapped: mapped(), read: new Uint8Array(held)[MB - 2] };
    held = undefined;
    await collect();
    report({ ...seen, after: mapped() });
  },
  /** One buffer was emptied and one moved: the number of live buffers is right, but not the set. */
  async 'moved-and-detached'() {
    const addresses = () => Math.round(processStatus('VmSize') / GB);
    const path = makeFile('large', 64 * GB);
    const begin = addresses();
    const mapping = mapPath(path, 64 * GB);
    const buffers = [0, 1].map((i) => addon.tensorBuffer(mapping, i, 1000));
    let held = new Uint8Array(ways.structuredClone(buffers[1]));
    detach(mapping, buffers);
    // Pushes the range out of the quarantine.
    const small = makeFile('small', 4096);
    for (let i = 0; i < 4100; i++) {
      const other = mapPath(small, 4096);
      detach(other, [addon.tensorBuffer(other, 0, 1)]);
    }
    await collect();
    const seen = { held: addresses() - begin, read: held[999] };
    held = undefined;
    await collect();
    const lengths = buffers.map(({ byteLength }) => byteLength);
    report({ lengths, ...seen, after: addresses() - begin });
  },
  async marked() {
    const path = fileOfSevens();
    const mapping = mapPath(path, MB);
    const buffers = [0, 1].map((i) => addon.tensorBuffer(mapping, i, 1000));
    for (const buffer of buffers) markAsUntransferable(buffer);
    const bytes = new Uint8Array(buffers[0]);
    detach(mapping, buffers);
    // One buffer outlives its worker, the other this process.
    const worker = new Worker(fileURLToPath(import.meta.url), {
      workerData: { folder, role: 'marker' },
    });
    const [code] = await once(worker, 'exit');
    globalThis.kept = addon.tensorBuffer(mapPath(path, MB), 0, 1000);
    markAsUntransferable(globalThis.kept);
    report([bytes[0] ?? 0, code]);
  },
  /** Each worker moves a buffer here, keeps others, and is terminated. */
  async workers() {
    fileOfSevens();
    const wrong = await readOfTerminated(6);
    await collect();
    report({ mapped: mapped(), wrong });
  },
  /** The longest buffer of Node 20, and one byte more. */
  limit() {
    const lengths = [4 * GB, 4 * GB + 1];
    const mapping = mapPath(makeFile('large', 5 * GB), 5 * GB);
    report(
      lengths.map((length) => {
        try {
          const bytes = new Uint8Array(addon.tensorBuffer(mapping, 0, length));
          bytes[length - 1] = 7;
          return [bytes.length - length, bytes[length - 1]];
        } catch (error) {
          return error.code;
        }
      }),
    );
  },
  /** Other functions that take ArrayBuffers. */
  async others() {
    const mapping = mapPath(fileOfSevens(), MB);
    const buffer = addon.tensorBuffer(mapping, 1, MB - 1);
    const results = [
      structuredClone(buffer),
      v8.deserialize(v8.serialize(buffer)),
      await new Blob([buffer]).arrayBuffer(),
      buffer.slice(1),
    ];
    const stream = v8.getHeapSnapshot();
    for await (const chunk of stream) void chunk;
    results.push(buffer);
    report(results.map((result) => new Uint8Array(result)[5]));
  },
};

const roles = {
  mirror: () => parentPort.once('message', (buffer) => parentPort.postMessage(buffer, [buffer])),
  marker() {
    globalThis.kept = addon.tensorBuffer(mapPath(join(folder, 'sevens'), MB), 0, 1000);
    markAsUntransferable(globalThis.kept);
  },
  keeper() {
    const mapping = mapPath(join(folder, 'sevens'), MB);
    globalThis.kept = Array.from({ length: 100 }, (_, i) => addon.tensorBuffer(mapping, i, MB / 2));
    const [moved] = globalThis.kept;
    parentPort.postMessage(moved, [moved]);
    parentPort.on('message', () => {});
  },
};

if (isMainThread) await scenarios[scenario]();
else roles[workerData.role]();
