/**
 * Opens a file, or the index of a checkpoint, with many tensors. Arguments: METHOD FILE LATER, the number of calls
 * after the first. Prints the ms of the first call in a fresh process, everything imported, and of the later ones.
 * `headers.py` does the same.
 */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { safeOpen } from 'safetensors-mmap';
import { exposeCollector } from './memory.mjs';

/** Bits per element of the dtypes that the benchmarks' files have. */
const DTYPE_BITS = new Map(Object.entries({ U8: 8, F8_E4M3: 8, BF16: 16, F32: 32 }));

/**
 * The entries of a header by name, checked in one loop: types, sizes, no gap, no overlap, the end of the data. Unlike
 * the package's parser it does not notice a name that comes twice, and wants entries in the order of the data.
 */
function checkHeader(json, dataByteLength) {
  const parsed = JSON.parse(json);
  const entries = new Map();
  let position = 0;
  for (const name of Object.keys(parsed)) {
    if (name === '__metadata__') continue;
    const entry = parsed[name];
    const bits = DTYPE_BITS.get(entry.dtype);
    const { shape, data_offsets: offsets } = entry;
    if (bits === undefined || !Array.isArray(shape)) throw new Error(name);
    if (!Array.isArray(offsets) || offsets.length !== 2) throw new Error(name);
    const [begin, end] = [offsets[0], offsets[1]];
    const areSafe = Number.isSafeInteger(begin) && Number.isSafeInteger(end);
    if (!areSafe || begin < 0) throw new Error(name);
    let elements = 1;
    for (let i = 0; i < shape.length; i++) {
      if (!Number.isSafeInteger(shape[i]) || shape[i] < 0) throw new Error(name);
      elements *= shape[i];
    }
    if (elements * bits !== (end - begin) * 8) throw new Error(name);
    entries.set(name, entry);
    if (begin !== position) throw new Error('a gap or an overlap');
    position = end;
  }
  if (position !== dataByteLength) throw new Error('the data has another size');
  return entries;
}

/** The same without this package: JSON.parse, and the checks that the format asks for. */
function openByJson(path) {
  const fd = openSync(path, 'r');
  const prefix = Buffer.alloc(8);
  readSync(fd, prefix);
  const header = Buffer.allocUnsafe(Number(prefix.readBigUInt64LE()));
  readSync(fd, header, 0, header.length, 8);
  closeSync(fd);
  return checkHeader(header.toString(), statSync(path).size - 8 - header.length);
}

const METHODS = {
  open: (path) => safeOpen(path),
  keys: (path) => safeOpen(path).keys(),
  checkpoint: (index) => safeOpen(index),
  'checkpoint-every-header': (index) => safeOpen(index).offsetKeys(),
  json: openByJson,
  'json-keys': (path) => [...openByJson(path).keys()].sort(),
};

const [method, path, count] = process.argv.slice(2);
const held = [];

function timeCall() {
  const start = performance.now();
  held.push(METHODS[method](path));
  return performance.now() - start;
}

// Young objects of the imports, which fill most of the room that Node 20 has for them: else the first call
// is sometimes the one that waits until they are collected.
exposeCollector()({ type: 'minor' });
const first = timeCall();
const later = Array.from({ length: Number(count) }, timeCall);
console.log(JSON.stringify({ first, later }));
