// Copies a tensor `t` of 2 GiB and parts of it after the process was forbidden to have more memory.
// Prints how each copy ended. Arguments: FILE.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { loadFile, safeOpen, serialize } from '../../../lib/index.js';

const path = process.argv[2];
const file = safeOpen(path);
const tensor = file.getTensor('t');
const read = safeOpen(path, { storage: 'read' });
void tensor.bytes;
const [, used] = /VmSize:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'));
// Too little for the smallest copy, but enough for the threads that the engine starts later.
const limit = Number(used) * 1024 + 2 ** 29;
execFileSync('prlimit', ['--pid', String(process.pid), `--as=${limit}`]);

const copies = {
  copy: () => tensor.copy(),
  slice: () => tensor.slice(null, [null, null, 2]),
  // A quarter of the bytes, four times as long.
  toFloat32: () => tensor.slice([0, 1024]).toFloat32(),
  toFloat32Async: () => tensor.slice([0, 1024]).toFloat32Async(),
  take: () => tensor.take(new Uint16Array(2048)),
  takeFloat32Async: () => tensor.takeFloat32Async(new Uint16Array(512)),
  load: () => file.readTensors(),
  serialize: () => serialize({ t: tensor }),
  readBytes: () => read.getTensor('t').bytes,
  readSlice: () => read.getSlice('t', [0, 1024]).bytes,
  readWindow: () =>
    read
      .getTensor('t')
      .chunks({ maxByteLength: 2 ** 30 })
      .next(),
  readPrefetch: () => read.prefetch(),
  loadFile: () => loadFile(path, { storage: 'read' }),
};
const ends = {};
for (const [name, copy] of Object.entries(copies)) {
  try {
    await copy();
    ends[name] = 'complete';
  } catch ({ code, message, cause }) {
    ends[name] = { code, message, cause: cause?.name };
  }
}
console.log(JSON.stringify(ends));
