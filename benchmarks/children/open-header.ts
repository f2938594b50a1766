/**
 * Opens a file with many tensors. Arguments: METHOD FILE LATER, the number of calls after the first.
 * `open_header.py` does the same.
 */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { safeOpen } from 'safetensors-mmap';
import { median } from '../figures.js';
import { checkHeader } from './check-header.js';

/** The line this child prints: wall times in ms in a fresh process, everything imported. */
export interface OpenHeaderResult {
  readonly first: number;
  /** Median of the later calls; null when there were none. */
  readonly later: number | null;
}

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

const [method = '', path = '', later] = process.argv.slice(2);
const held: unknown[] = [];

function timeCall(): number {
  const start = performance.now();
  held.push(METHODS[method]?.(path));
  return performance.now() - start;
}

// Young objects of the imports, which fill most of the room that Node 20 has for them: else the first call
// is sometimes the one that waits until they are collected.
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as (options: { type: 'minor' }) => void;
collect({ type: 'minor' });
const first = timeCall();
const others = Array.from({ length: Number(later) }, timeCall);
const result: OpenHeaderResult = { first, later: others.length === 0 ? null : median(others) };
if (held.includes(undefined)) throw new Error(`there is no method ${method}`);
console.log(JSON.stringify(result));
