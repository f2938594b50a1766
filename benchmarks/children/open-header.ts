/** Opens a file with many tensors. Arguments: METHOD FILE. `open_header.py` does the same. */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { safeOpen } from 'safetensors-mmap';
import { checkHeader } from './check-header.js';

/** What a program does without this package: JSON.parse, and the checks that the format asks for. */
function openByJson(path: string): ReturnType<typeof checkHeader> {
  const fd = openSync(path, 'r');
  const prefix = Buffer.alloc(8);
  readSync(fd, prefix);
  const header = Buffer.allocUnsafe(Number(prefix.readBigUInt64LE()));
  readSync(fd, header, 0, header.length, 8);
  closeSync(fd);
  return checkHeader(header.toString(), statSync(path).size - 8 - header.length);
}

const METHODS: Readonly<Record<string, (path: string) => unknown>> = {
  open: (path) => safeOpen(path),
  keys: (path) => safeOpen(path).keys(),
  json: openByJson,
  'json-keys': (path) => [...openByJson(path).keys()].sort(),
};

const [method = '', path = ''] = process.argv.slice(2);
const start = performance.now();
const held = METHODS[method]?.(path);
const elapsed = performance.now() - start;
// Wall time in ms in a fresh process, everything imported.
console.log(JSON.stringify(held === undefined ? null : elapsed));
