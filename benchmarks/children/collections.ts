/**
 * Counts full collections while tensors are taken from files beside a large heap.
 * Node runs this with --expose-gc. Arguments: `buffers` or `none`, LIVE_BYTES, TENSORS_PER_FILE,
 * FILE...
 */
import { constants, PerformanceObserver } from 'node:perf_hooks';
import { setTimeout } from 'node:timers/promises';
import { type SafetensorsFile, safeOpen } from 'safetensors-mmap';

/** The line this child prints. */
export interface CollectionsResult {
  /** Full (mark-compact) collections while files were opened and tensors taken. */
  readonly full: number;
  /** Wall time of the same in ms. */
  readonly elapsed: number;
  /** Tensors seen. */
  readonly tensors: number;
}

interface LiveObject {
  readonly id: number;
  readonly name: string;
  readonly position: { readonly x: number; readonly y: number };
}

/** Small objects, as programs have them, until the heap holds so many bytes. */
function liveObjects(byteLength: number): LiveObject[] {
  const objects: LiveObject[] = [];
  while (process.memoryUsage().heapUsed < byteLength) {
    for (let count = 0; count < 10_000; count++) {
      const id = objects.length;
      objects.push({ id, name: `object ${id}`, position: { x: id / 2, y: id / 3 } });
    }
  }
  return objects;
}

const [mode = '', liveBytes = '0', tensorsPerFile = '1', ...paths] = process.argv.slice(2);
const live = liveObjects(Number(liveBytes));
globalThis.gc?.();

let full = 0;
const observer = new PerformanceObserver((list) => {
  for (const { detail } of list.getEntries() as { detail?: { kind?: number } }[]) {
    if (detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR) full++;
  }
});
observer.observe({ entryTypes: ['gc'] });

const held: unknown[] = [];
const files: SafetensorsFile[] = [];
const start = performance.now();
for (const path of paths) {
  const file = safeOpen(path);
  files.push(file);
  for (const name of file.offsetKeys().slice(0, Number(tensorsPerFile))) {
    held.push(mode === 'buffers' ? file.getTensor(name).bytes : file.info(name));
  }
}
const elapsed = performance.now() - start;
// The observer hears of a collection in a later turn of the event loop.
await setTimeout(100);
const result: CollectionsResult = { full, elapsed, tensors: held.length };
console.log(JSON.stringify(result));
if (live.length + files.length === 0) throw new Error('the objects must live until here');
