/**
 * The readers in Node. Arguments: METHOD FILE LOOPS all|INDEX, with the folder of the compiled loop
 * and the position of the one tensor to read. Prints one line, and keeps all tensors until standard
 * input ends. `read.py` and `read_limit.c` do the same.
 */
import { fstatSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { safeOpen } from 'safetensors-mmap';
import { requireRival } from './rivals.js';
import { TensorClock } from './tensor-clock.js';

/** The bytes of all tensors in the order of the file, one function for each. */
type Tensors = readonly (() => Uint8Array)[];

/** The part of mmap-io that is used here. */
interface MmapIo {
  readonly PROT_READ: number;
  readonly MAP_PRIVATE: number;
  map(size: number, protection: number, flags: number, fd: number): Buffer;
}

/** What programs do with a file in one piece of memory: JSON.parse and views, no checks. */
function viewsOf(file: Buffer): Tensors {
  const dataStart = 8 + Number(file.readBigUInt64LE());
  const header: Record<string, { data_offsets: [number, number] }> = JSON.parse(
    file.toString('utf8', 8, dataStart),
  );
  return Object.entries(header)
    .filter(([name]) => name !== '__metadata__')
    .map(([, { data_offsets }]) => data_offsets)
    .sort(([a], [b]) => a - b)
    .map(
      ([begin, end]) =>
        () =>
          file.subarray(dataStart + begin, dataStart + end),
    );
}

/** Tensors that come one after the other, each to be read at once. */
type TensorStream = AsyncIterable<[string, { readonly bytes: Uint8Array }]>;

type Method = (path: string) => Tensors | TensorStream | Promise<Tensors>;

const METHODS: Readonly<Record<string, Method>> = {
  mapped: (path) => {
    const file = safeOpen(path);
    return file.offsetKeys().map((name) => () => file.getTensor(name).bytes);
  },
  prefetched: async (path) => {
    const file = safeOpen(path);
    await file.prefetch();
    return file.offsetKeys().map((name) => () => file.getTensor(name).bytes);
  },
  streamed: (path) => safeOpen(path).stream(),
  loaded: async (path) => {
    const tensors = await safeOpen(path).load();
    return Array.from(tensors.values(), (tensor) => () => tensor.bytes);
  },
  readFile: async (path) => viewsOf(await readFile(path)),
  'mmap-io': (path) => {
    const fd = openSync(path, 'r');
    const { map, PROT_READ, MAP_PRIVATE } = mmapIo as MmapIo;
    return viewsOf(map(fstatSync(fd).size, PROT_READ, MAP_PRIVATE, fd));
  },
};

const [method = '', path = '', loops = '', what = 'all'] = process.argv.slice(2);
// Loaded before the clock starts, as the other packages are.
const mmapIo = method === 'mmap-io' ? requireRival('@riaskov/mmap-io') : undefined;

const clock = new TensorClock(loops);
const all = (await METHODS[method]?.(path)) ?? [];
clock.opened();
const streams = Symbol.asyncIterator in all;
if (streams) {
  for await (const [, tensor] of all) {
    clock.hold(tensor.bytes);
    clock.touch(tensor.bytes);
  }
} else {
  const taken = what === 'all' ? all : all.slice(Number(what), Number(what) + 1);
  for (const take of taken) clock.hold(take());
}
clock.handedOut();
if (!streams) clock.touchHeld();
console.log(JSON.stringify(clock.stop()));
await clock.keepHeld();
