// Opens a file, takes a tensor and closes, many times. Prints the rounds, the most descriptors and mappings, and the
// sum of some kept tensors' values in the end. Arguments: FILE COUNT STORAGE TOUCH KEEP
import { readdirSync, readFileSync } from 'node:fs';
import process from 'node:process';
import { safeOpen } from '../../../../lib/index.js';

const [path, count, storage, touch, keep] = process.argv.slice(2);
const kept = [];
let rounds = 0;
let most = 0;
let mappings = 0;
for (; rounds < Number(count); rounds++) {
  const file = safeOpen(path, { storage });
  const tensor = file.getTensor('t');
  if (touch === 'touched') tensor.data;
  if (keep === 'kept') kept.push(tensor);
  file.close();
  if (rounds % 100 === 0) most = Math.max(most, readdirSync('/proc/self/fd').length);
  if (rounds % 1000 === 999) {
    const maps = readFileSync('/proc/self/maps', 'utf8');
    mappings = Math.max(mappings, maps.split(path).length - 1);
  }
}
const sum = kept
  .filter((_, i) => i % 10 === 0)
  .reduce((total, tensor) => total + tensor.toFloat32()[1], 0);
console.log(JSON.stringify({ rounds, most, mappings, sum }));
