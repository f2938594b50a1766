/**
 * Makes the buffers of all tensors of a file, beside old objects that are alive.
 * Arguments: METHOD FILE OBJECTS, the number of objects. METHOD is `default`, or `counted` to have V8
 * count the buffers as memory of its own.
 */
import {
  constants,
  type NodeGCPerformanceDetail,
  type PerformanceEntry,
  PerformanceObserver,
} from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { mappingStatus, safeOpen } from 'safetensors-mmap';

/** The line this child prints: times in ms. */
export interface BuffersResult {
  /** Until the first buffer is there. */
  readonly first: number;
  /** Until all are. */
  readonly all: number;
  /** Full collections meanwhile. */
  readonly collections: number;
  /** Memory of the live objects, in bytes. */
  readonly liveBytes: number;
  /** Why V8 counts the buffers; null when it does not. */
  readonly counted: string | null;
}

const [method = '', path = '', objects] = process.argv.slice(2);
process.env['SAFETENSORS_MMAP_COUNTED_BUFFERS'] = method === 'counted' ? '1' : '';

const live = Array.from({ length: Number(objects) }, (_, i) => ({ i, next: [i, i] }));
setFlagsFromString('--expose-gc');
runInNewContext('gc')();
const liveBytes = process.memoryUsage().heapUsed;

const collections: number[] = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) {
    const { detail } = entry as PerformanceEntry & { readonly detail: NodeGCPerformanceDetail };
    if (detail.kind === constants.NODE_PERFORMANCE_GC_MAJOR) collections.push(entry.startTime);
  }
}).observe({ entryTypes: ['gc'] });

const file = safeOpen(path);
const tensors = file.keys().map((name) => file.getTensor(name));
const begin = performance.now();
const kept = [tensors[0]?.buffer];
const first = performance.now() - begin;
for (const tensor of tensors) kept.push(tensor.buffer);
const end = performance.now();
// The observer is called later.
await sleep(50);

const status = mappingStatus();
const result: BuffersResult = {
  first,
  all: end - begin,
  collections: collections.filter((time) => time >= begin && time <= end).length,
  liveBytes,
  counted: status.available && status.buffers.counted ? status.buffers.reason : null,
};
console.log(JSON.stringify(result));
// All of this is alive until here.
if (kept.length + live.length === 0) throw new Error('there are no buffers');
