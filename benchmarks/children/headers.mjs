/**
 * Opens a file with many tensors. Arguments: METHOD FILE LATER, the number of calls after the first. Prints the ms
 * of the first call in a fresh process, everything imported, and of the later ones. `open_header.py` does the same.
 */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { safeOpen } from 'safetensors-mmap';
import { checkHeader } from './check-header.mjs';
import { exposeCollector } from './memory.mjs';

/** What a program does without this package: JSON.parse, and the checks that the format asks for. */
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
