// Calls process.exit() with 100 buffers of 1 MiB alive, while functions are compiled in the
// background: on Node 24 the exit waits forever for a compiler thread that waits for a collection.
// Ends at once, since any more JavaScript would let that happen. node exit.mjs <path>
import { openSync } from 'node:fs';
import process from 'node:process';
import { loadAddon } from '../../../../build/platform/addon/load.js';

const { addon } = loadAddon();
const [path] = process.argv.slice(2);
globalThis.kept = Array.from({ length: 100 }, (_, i) => {
  const sum = new Function(
    'n',
    `let sum = 0; for (let i = 0; i < n; i++) sum += ${i} * i; return sum`,
  );
  for (let call = 0; call < 40; call++) sum(30);
  const mapping = addon.mapFile(openSync(path), 2 ** 20, true);
  return [sum, mapping, new Uint8Array(addon.tensorBuffer(mapping, 1, 2 ** 20 - 1))];
});
process.exit(0);
