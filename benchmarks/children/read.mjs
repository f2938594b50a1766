/**
 * The readers in Node. Arguments: METHOD FILE LOOPS NAME TOLD…, with the folder of the compiled loop, the NAME of the
 * one tensor to read, all when it is empty, and names whose dtypes are printed. Prints a line: ms from opening the file
 * until it is open (`open`), the first byte is in a register (`firstTensor`), all tensors are exposed (`exposed`)
 * and the loop has been over every byte (`everyByte`); bytes and the sum of all words; memory when the clock started
 * (`before`) and in the end (`after`). Keeps all tensors until standard input ends. So do `read.py` and `limits.c`.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { open, safeOpen } from 'safetensors-mmap';
import { diskBytes, exposeCollector, readMemory } from './memory.mjs';

const [method, path, loops, wanted = '', ...told] = process.argv.slice(2);

/** What every reader gives, as a Map does: `keys()`, the names in the order of the file, and `get(name)`. */
const asMap = (file) => ({ keys: () => file.offsetKeys(), get: (name) => file.getTensor(name) });

/** Takes a file in one buffer, as programs do: JSON.parse and views, no checks. */
function viewsOf(file) {
  const dataStart = 8 + Number(file.readBigUInt64LE());
  const { __metadata__, ...places } = JSON.parse(file.toString('utf8', 8, dataStart));
  const rangeOf = (name) => places[name].data_offsets.map((offset) => dataStart + offset);
  const names = Object.keys(places).sort(
    (a, b) => places[a].data_offsets[0] - places[b].data_offsets[0],
  );
  return { keys: () => names, get: (name) => ({ bytes: file.subarray(...rangeOf(name)) }) };
}

/** Each loads its packages and returns a function that opens the file. */
const METHODS = {
  mapped: () => (path) => asMap(safeOpen(path)),
  prefetched: () => async (path) => {
    const file = safeOpen(path);
    await file.prefetch();
    return asMap(file);
  },
  // Tensors that come one after the other, each to be read at once.
  streamed: () => (path) => safeOpen(path).stream(),
  reused: () => (path) => safeOpen(path).stream({ reuse: true }),
  shardsStreamed: () => (index) => safeOpen(index).stream(),
  shardsReused: () => (index) => safeOpen(index).stream({ reuse: true }),
  loaded: () => (path) => safeOpen(path).readTensors(),
  readFile: () => async (path) => viewsOf(await readFile(path)),
  mmapIo: async () => {
    const { mapFile } = await import('../rivals/readers.mjs');
    return (path) => viewsOf(mapFile(path));
  },
  torch: () => async (path) => asMap(await open(path)),
  // NumPy saves BF16 as two bytes without a name: the program has to know what they are.
  npz: () => async (path) => {
    const { keys, get } = asMap(await open(path, { voidDtype: 'BF16' }));
    const named = ({ bytes, dtype }) => ({
      bytes,
      dtype: dtype.replace(/^BF16$/, 'V2 (told $&)'),
    });
    return { keys, get: (name) => named(get(name)) };
  },
};

const load = METHODS[method] ?? (await import('../rivals/readers.mjs'))[method];
const openTensors = await load();
const { touchWords } = createRequire(import.meta.url)(`${loops}/touch.node`);
const held = [];
let sum = 0n;
const touch = (bytes) => {
  sum += touchWords(bytes);
};
// Garbage of the start would be freed while the clock runs, and pass for memory that was gained. What the first
// collection finds to be free is given back by the second.
const collect = exposeCollector();
collect();
collect();
const diskBefore = diskBytes();
const before = readMemory();
const start = performance.now();
let [firstByte, firstTensor] = [undefined, Number.NaN];
const dtypes = {};
const hold = (name, { bytes, dtype }) => {
  if (told.includes(name)) dtypes[name] = dtype;
  if (held.push(bytes) > 1) return;
  firstByte = bytes[0];
  firstTensor = performance.now() - start;
};
const file = await openTensors(path);
const opened = performance.now() - start;
const isStream = Symbol.asyncIterator in file;
if (isStream) {
  for await (const [name, tensor] of file) {
    hold(name, tensor);
    touch(tensor.bytes);
  }
} else {
  for (const name of wanted === '' ? file.keys() : [wanted]) {
    const found = file.get(name);
    hold(name, found instanceof Promise ? await found : found);
  }
}
const exposed = performance.now() - start;
if (!isStream) held.forEach(touch);
const everyByte = performance.now() - start;
const after = readMemory();
const checksum = BigInt.asUintN(64, sum).toString(16).padStart(16, '0');
const readBytes = before && diskBytes() - diskBefore;
const bytes = held.reduce((total, { byteLength }) => total + byteLength, 0);
const times = { open: opened, firstTensor, exposed, everyByte };
const seen = { bytes, firstByte, checksum, dtypes: told.map((name) => dtypes[name] ?? null) };
console.log(JSON.stringify({ ...times, ...seen, before, after, readBytes }));
for await (const _ of process.stdin);
held.length = 0;
