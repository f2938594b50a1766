/**
 * The readers in Node. Arguments: METHOD FILE LOOPS NAME TOLD…, with the folder of the compiled loop, the NAME of the
 * one tensor to read, all when it is empty, and names whose dtypes are told. Prints one line: times in ms since the call that
 * opens the file, until it is open (`open`), the first byte is in a register (`firstTensor`), all tensors are handed out
 * (`handedOut`), and the loop has been over every byte (`everyByte`); their bytes and the sum of all words; memory when
 * the clock started (`before`) and in the end (`after`). Keeps all tensors until standard input ends. `read.py` and
 * `limits.c` do the same.
 */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { safeOpen } from 'safetensors-mmap';
import { diskBytes, exposeCollector, readMemory } from './memory.mjs';

const [method, path, loops, wanted = '', ...told] = process.argv.slice(2);

const tensorsOf = (file) => ({ names: file.offsetKeys(), get: (name) => file.getTensor(name) });

/** Reads the file into one buffer, as programs do: JSON.parse and views, no checks. */
function viewsOf(file) {
  const dataStart = 8 + Number(file.readBigUInt64LE());
  const header = JSON.parse(file.toString('utf8', 8, dataStart));
  const places = Object.entries(header).filter(([name]) => name !== '__metadata__');
  places.sort(([, a], [, b]) => a.data_offsets[0] - b.data_offsets[0]);
  const get = (name) => {
    const [begin, end] = header[name].data_offsets;
    return { bytes: file.subarray(dataStart + begin, dataStart + end) };
  };
  return { names: places.map(([name]) => name), get };
}

/** Each loads its packages and returns a function that opens the file. */
const METHODS = {
  mapped: () => (path) => tensorsOf(safeOpen(path)),
  prefetched: () => async (path) => {
    const file = safeOpen(path);
    await file.prefetch();
    return tensorsOf(file);
  },
  // Tensors that come one after the other, each to be read at once.
  streamed: () => (path) => safeOpen(path).stream(),
  loaded: () => async (path) => {
    const tensors = await safeOpen(path).readTensors();
    return { names: tensors.keys(), get: (name) => tensors.get(name) };
  },
  readFile: () => async (path) => viewsOf(await readFile(path)),
  mmapIo: async () => {
    const { mapFile } = await import('../rivals/readers.mjs');
    return (path) => viewsOf(mapFile(path));
  },
  torch: async () => {
    const { openTorchCheckpoint } = await import('safetensors-mmap/convert');
    return (path) => tensorsOf(openTorchCheckpoint(path));
  },
  // NumPy saves BF16 as two bytes without a name: the program has to know what they are.
  npz: async () => {
    const { openNumpy } = await import('safetensors-mmap/convert');
    return (path) => {
      const file = openNumpy(path, { voidDtype: 'BF16' });
      const get = (name) => {
        const { bytes, dtype } = file.getTensor(name);
        return { bytes, dtype: dtype === 'BF16' ? 'V2 (told BF16)' : dtype };
      };
      return { names: file.offsetKeys(), get };
    };
  },
};

const load = METHODS[method] ?? (await import('../rivals/readers.mjs'))[method];
const openTensors = await load();
const { touchWords } = createRequire(import.meta.url)(`${loops}/touch.node`);
const held = [];
let [sum, bytes] = [0n, 0];
const touch = (tensor) => {
  sum += touchWords(tensor);
  bytes += tensor.byteLength;
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
const hold = (tensor) => {
  if (held.push(tensor.bytes) > 1) return;
  firstByte = held[0][0];
  firstTensor = performance.now() - start;
};
const file = await openTensors(path);
const open = performance.now() - start;
const isStream = Symbol.asyncIterator in file;
if (isStream) {
  for await (const [, tensor] of file) {
    hold(tensor);
    touch(tensor.bytes);
  }
} else {
  for (const name of wanted === '' ? file.names : [wanted]) {
    const found = file.get(name);
    const tensor = found instanceof Promise ? await found : found;
    hold(tensor);
    if (told.length > 0) dtypes[name] = tensor.dtype;
  }
}
const handedOut = performance.now() - start;
if (!isStream) for (const tensor of held) touch(tensor);
const everyByte = performance.now() - start;
const after = readMemory();
const checksum = BigInt.asUintN(64, sum).toString(16).padStart(16, '0');
const readBytes = before && diskBytes() - diskBefore;
const times = { open, firstTensor, handedOut, everyByte };
const seen = { bytes, firstByte, checksum, dtypes: told.map((name) => dtypes[name] ?? null) };
console.log(JSON.stringify({ ...times, ...seen, before, after, readBytes }));
for await (const _ of process.stdin);
held.length = 0;
