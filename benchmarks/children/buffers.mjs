/**
 * Makes the buffers of all tensors of a file, beside old objects that are alive: ms until the first is there and
 * until all are, full collections meanwhile, bytes of the objects. Arguments: METHOD FILE OBJECTS, the number of
 * objects. METHOD is `default`, or `counted` to have V8 count the buffers as memory of its own; the line says why
 * V8 counts them.
 */
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { mappingStatus, safeOpen } from 'safetensors-mmap';
import { exposeCollector } from './memory.mjs';

const [method, path, objects] = process.argv.slice(2);
process.env['SAFETENSORS_MMAP_COUNTED_BUFFERS'] = method === 'counted' ? '1' : '';

const live = Array.from({ length: Number(objects) }, (_, i) => ({ i, next: [i, i] }));
exposeCollector()();
const liveBytes = process.memoryUsage().heapUsed;

const collected = [];
new PerformanceObserver((list) => {
  for (const { startTime, detail } of list.getEntries()) {
    if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collected.push(startTime);
  }
}).observe({ entryTypes: ['gc'] });

const file = safeOpen(path);
const tensors = file.keys().map((name) => file.getTensor(name));
const begin = performance.now();
const kept = [tensors[0].buffer];
const first = performance.now() - begin;
for (const tensor of tensors) kept.push(tensor.buffer);
const end = performance.now();
// The observer is called later.
await sleep(50);

const { buffers } = mappingStatus();
const collections = collected.filter((time) => time >= begin && time <= end).length;
const counted = buffers?.counted ? buffers.reason : null;
console.log(JSON.stringify({ first, all: end - begin, collections, liveBytes, counted }));
// All of this is alive until here.
if (kept.length + live.length === 0) throw new Error('there are no buffers');
