/** Opens a file with many tensors. Arguments: ours|ours-keys|json FILE */
import { closeSync, openSync, readSync, statSync } from 'node:fs';
import { safeOpen } from 'safetensors-mmap';
import { checkHeader } from './check-header.js';

/** The line this child prints. */
export interface OpenHeaderResult {
  /** Wall time in ms in a fresh process, everything imported. */
  readonly elapsed: number;
  readonly tensors: number;
}

/** What one writes without this package: JSON.parse, and the checks that the format asks for. */
function openByJson(path: string): number {
  const fd = openSync(path, 'r');
  const prefix = Buffer.alloc(8);
  readSync(fd, prefix);
  const header = Buffer.allocUnsafe(Number(prefix.readBigUInt64LE()));
  readSync(fd, header, 0, header.length, 8);
  const tensors = checkHeader(header.toString(), statSync(path).size - 8 - header.length);
  closeSync(fd);
  return tensors.size;
}

const [method = '', path = ''] = process.argv.slice(2);
const METHODS: Readonly<Record<string, () => number>> = {
  ours: () => safeOpen(path).size,
  'ours-keys': () => safeOpen(path).keys().length,
  json: () => openByJson(path),
};
const start = performance.now();
const tensors = METHODS[method]?.() ?? Number.NaN;
const result: OpenHeaderResult = { elapsed: performance.now() - start, tensors };
console.log(JSON.stringify(result));
