// Opens one file many times and closes or drops it; prints the kernel's counters before and after.
import { safeOpen } from '../../../lib/index.js';
import { collect, counters } from '../../support/process-memory.mjs';

const [path, formatCount, ending, storage] = process.argv.slice(2);
const count = Number(formatCount);

function openOnce() {
  const file = safeOpen(path, { storage });
  const { bytes } = file.getTensor('t');
  if (bytes[1] !== 2) throw new Error(`read ${bytes[1]}`);
  if (ending === 'close') file.close();
  if (ending === 'detach') file.close({ detach: true });
}

// The first rounds fill caches and quarantine, which are bounded and stay.
for (let i = 0; i < count / 10; i++) openOnce();
await collect();
const before = counters(path);
let most = { ...before };
for (let i = 0; i < count; i++) {
  openOnce();
  if (i % 1000 !== 999) continue;
  // Dropped handles are the collector's: it does not know of descriptors, the limit of which is low.
  if (ending === 'drop') await collect();
  else await new Promise(setImmediate);
  const now = counters(path);
  most = Object.fromEntries(
    Object.entries(now).map(([key, value]) => [key, Math.max(value, most[key])]),
  );
}
await collect();
console.log(JSON.stringify({ before, most, after: counters(path) }));
