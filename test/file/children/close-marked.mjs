// Closes files whose buffers were marked as untransferable: such a buffer cannot be detached.
// Prints the sum of the bytes that are left. Arguments: FILE STORAGE
import { writeSync } from 'node:fs';
import { markAsUntransferable } from 'node:worker_threads';
import { safeOpen } from '../../../lib/index.js';

function sum(bytes) {
  let total = 0;
  for (let i = 0; i < bytes.length; i++) total += bytes[i];
  return total;
}

const [path, storage] = process.argv.slice(2);
const file = safeOpen(path, { storage });
const [whole, part] = [file.getTensor('t').bytes, file.getTensor('t').slice([1, 3]).bytes];
const window = file.getTensor('t').chunks().next().value;
for (const { buffer } of [whole, window]) markAsUntransferable(buffer);
file.close({ detach: true });
writeSync(1, JSON.stringify([whole, part, window].map(sum)));
// Without this, Node 24 and 26 detach what is left of an addon's buffers at the end, and abort.
process.exit(0);
