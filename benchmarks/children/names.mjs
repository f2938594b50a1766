/**
 * Asks for tensors whose names are known already. Arguments: METHOD FILE CALLS. Prints the ms of one call, the median
 * of rounds over all names.
 */
import { safeOpen } from 'safetensors-mmap';
import { median } from '../figures.mjs';

/** The first ones find all names, and compile the loop. */
const UNCOUNTED_ROUNDS = 5;

const [method, path, calls] = process.argv.slice(2);
const file = safeOpen(path);
const names = file.keys();
const map = new Map(names.map((name) => [name, file.getTensor(name)]));
const pieces = names.map((name) => {
  const cut = name.lastIndexOf('.') + 1;
  return [name.slice(0, cut), name.slice(cut)];
});

/** A new string at every call: only its characters say that it was asked for before. */
const built = (i) => pieces[i][0] + pieces[i][1];
const kept = (i) => names[i];

const METHODS = {
  built: (i) => file.getTensor(built(i)),
  kept: (i) => file.getTensor(kept(i)),
  'map-built': (i) => map.get(built(i)),
};

const call = METHODS[method];
const times = [];
let found = 0;
for (let round = 0; round * names.length < calls || times.length === 0; round++) {
  const start = performance.now();
  for (let i = 0; i < names.length; i++) if (call(i) !== undefined) found++;
  const elapsed = performance.now() - start;
  if (round >= UNCOUNTED_ROUNDS) times.push(elapsed / names.length);
}
if (found % names.length !== 0) throw new Error('a name was not found');
console.log(JSON.stringify({ call: median(times) }));
