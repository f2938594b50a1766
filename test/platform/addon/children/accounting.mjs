// Counts the engine's full collections while buffers over huge sparse files are made.
// node --expose-gc accounting.mjs <scenario> <live heap in MB>

import { constants, PerformanceObserver, performance } from 'node:perf_hooks';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { addon, collect, makeFile, mapPath, report } from './support.mjs';

const [, , scenario, heap] = process.argv;
const MB = 1e6;
const GB = 1e9;

const collections = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    if (entry.detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR)
      collections.push(entry.startTime);
  }
}).observe({ entryTypes: ['gc'] });

async function measure(work) {
  const begin = performance.now();
  const kept = await work();
  const end = performance.now();
  await sleep(50);
  const majors = collections.filter((time) => time >= begin && time <= end).length;
  return { kept, majors, milliseconds: Math.round(end - begin) };
}

/** 1 000 buffers of 20 MB over one file of 20 GB. */
function oneLargeFile(path) {
  const mapping = mapPath(path, 20 * GB);
  return Array.from({ length: 1000 }, (_, i) => addon.tensorBuffer(mapping, i * 20 * MB, 20 * MB));
}

/** 163 files of 5 GB (one sparse file, mapped again and again), a buffer of 20 MB each. */
function manyFiles(path) {
  return Array.from({ length: 163 }, () => addon.tensorBuffer(mapPath(path, 5 * GB), 8, 20 * MB));
}

const scenarios = {
  one: () => oneLargeFile(makeFile('one', 20 * GB)),
  many: () => manyFiles(makeFile('many', 5 * GB)),
  none: () => Array.from({ length: 1000 }, () => new ArrayBuffer(8)),
  /** The file opened, used and dropped twenty times; nobody asks for collections. */
  async cycles() {
    const path = makeFile('cycles', 20 * GB);
    for (let i = 0; i < 20; i++) {
      oneLargeFile(path);
      await sleep(1);
    }
  },
  /** One buffer, too small for the engine to react. */
  small: () => [addon.tensorBuffer(mapPath(makeFile('small', 20 * GB), 20 * GB), 8, 30 * MB)],
};

const live = Array.from({ length: Number(heap) * 10_000 }, (_, i) => ({ i, next: [i, i] }));
await collect();
await sleep(50);
const { kept, majors, milliseconds } = await measure(scenarios[scenario]);
report({
  majors,
  milliseconds,
  heap: Math.round(process.memoryUsage().heapUsed / MB),
  external: Math.round(process.memoryUsage().external / MB),
  live: live.length + (kept?.length ?? 0),
});
