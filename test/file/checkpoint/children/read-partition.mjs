// Reads one rank's part of every tensor of a checkpoint, and prints how many bytes it has and how many
// the kernel fetched from the disk for this process.
import { readFileSync } from 'node:fs';
import { safeOpen } from '../../../../lib/index.js';

const [path, rank, worldSize] = process.argv.slice(2);
const fetched = () =>
  Number(/^read_bytes: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);

const before = fetched();
const checkpoint = safeOpen(path);
let byteLength = 0;
let sum = 0;
for (const name of checkpoint.keys()) {
  const partition = { rank: Number(rank), worldSize: Number(worldSize), dim: 0 };
  for (const chunk of checkpoint.getPartition(name, partition).chunks()) {
    byteLength += chunk.byteLength;
    for (let i = 0; i < chunk.byteLength; i++) sum += chunk[i];
  }
}
console.log(JSON.stringify({ byteLength, sum, fetched: fetched() - before }));
