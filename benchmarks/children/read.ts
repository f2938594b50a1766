/**
 * The readers in Node. Arguments: METHOD FILE LOOPS all|INDEX, with the folder of the compiled loop
 * and the position of the one tensor to read. Prints one line, and keeps all tensors until standard
 * input ends. `read.py` and `read_limit.c` do the same.
 */
import { fstatSync, openSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { safeOpen } from 'safetensors-mmap';
import { type Memory, readMemory } from '../process-memory.js';

/** The line a reader prints: times in ms since the call that opens the file, memory in bytes. */
export interface ReaderResult {
  /** Until the file is open: its tensors can be asked for. */
  readonly open: number;
  /** Until the first byte of the first tensor is in a register. */
  readonly firstTensor: number;
  /** Until all tensors have been handed out; a lazy reader has read nothing else then. */
  readonly handedOut: number;
  /** Until the loop has been over every byte of every tensor. */
  readonly everyByte: number;
  /** Bytes of the tensors. */
  readonly bytes: number;
  /** First byte of the first tensor, printed so that reading it cannot be left out. */
  readonly firstByte?: number | undefined;
  /** Sum of all words as 16 hexadecimal digits: equal for all readers of the same weights. */
  readonly checksum: string;
  /** Memory when the clock started; absent where the system does not tell. */
  readonly before?: Memory | undefined;
  /** Memory after the last byte was read, with all tensors still held. */
  readonly after?: Memory | undefined;
}

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
const require = createRequire(import.meta.url);
const { touchWords }: { touchWords(bytes: Uint8Array): bigint } = require(
  join(loops, 'touch.node'),
);
// Loaded before the clock starts, as the other packages are.
const rivals = '../../../benchmarks/node_modules/';
const mmapIo = method === 'mmap-io' ? require(`${rivals}@riaskov/mmap-io`) : undefined;

const held: Uint8Array[] = [];
let firstByte: number | undefined;
let firstTensor = Number.NaN;
let sum = 0n;
let bytes = 0;
// Garbage of the start would be freed while the clock runs, and pass for memory that was gained.
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
// What the first finds to be free is given back by the second.
collect();
collect();
const before = readMemory();
const start = performance.now();

function hold(tensor: Uint8Array): void {
  if (held.push(tensor) > 1) return;
  firstByte = tensor[0];
  firstTensor = performance.now() - start;
}

function touch(tensor: Uint8Array): void {
  sum += touchWords(tensor);
  bytes += tensor.byteLength;
}

const all = (await METHODS[method]?.(path)) ?? [];
const open = performance.now() - start;
const streams = Symbol.asyncIterator in all;
if (streams) {
  for await (const [, tensor] of all) {
    hold(tensor.bytes);
    touch(tensor.bytes);
  }
} else {
  for (const take of what === 'all' ? all : all.slice(Number(what), Number(what) + 1)) hold(take());
}
const handedOut = performance.now() - start;
if (!streams) for (const tensor of held) touch(tensor);
const everyByte = performance.now() - start;
const after = readMemory();
const checksum = BigInt.asUintN(64, sum).toString(16).padStart(16, '0');
const times = { open, firstTensor, handedOut, everyByte };
const result: ReaderResult = { ...times, bytes, firstByte, checksum, before, after };
console.log(JSON.stringify(result));
for await (const _ of process.stdin);
held.length = 0;
