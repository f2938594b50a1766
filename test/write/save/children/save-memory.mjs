// Saves a large file in one way and prints by how much the memory of the process grew meanwhile, in
// bytes: private memory, looked at again and again, and the most that was resident.
import { statSync } from 'node:fs';
import { safeOpen, saveFile } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const [way, source, target, size] = process.argv.slice(2);
const count = Number(size);

async function* produce() {
  const piece = new Uint8Array(2 ** 20);
  for (let left = count; left > 0; left -= piece.length) {
    yield piece.fill(left % 251).subarray(0, Math.min(left, piece.length));
  }
}

function tensorsOf() {
  const shape = [count];
  if (way === 'stream') return { x: { dtype: 'U8', shape, data: produce } };
  // Not touched again, as large results mostly are.
  if (way === 'memory') {
    return { x: { dtype: 'U8', shape, data: new Uint8Array(count).fill(1) } };
  }
  const file = safeOpen(source, { storage: way === 'read' ? 'read' : 'mmap' });
  if (way === 'mapped') file.getTensor('x').bytes;
  return file;
}

const tensors = tensorsOf();
globalThis.gc();
const before = { resident: processStatus('VmHWM'), anonymous: processStatus('RssAnon') };
let anonymous = 0;
const look = () => {
  anonymous = Math.max(anonymous, processStatus('RssAnon') - before.anonymous);
};
const timer = setInterval(look, 5);
await saveFile(target, tensors, { durable: false, onProgress: look });
clearInterval(timer);
look();
const resident = processStatus('VmHWM') - before.resident;
console.log(JSON.stringify({ anonymous, resident, byteLength: statSync(target).size }));
