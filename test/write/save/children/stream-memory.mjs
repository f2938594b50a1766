// Reads a large file from `serializeStream`, one way or another, and prints by how much the private memory of the
// process grew meanwhile, in bytes, and how many bytes came.
import { open, safeOpen, serializeStream } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const [way, source, size] = process.argv.slice(2);
const count = Number(size);

async function* produce() {
  const piece = new Uint8Array(2 ** 20);
  for (let left = count; left > 0; left -= piece.length) {
    yield piece.fill(left % 251).subarray(0, Math.min(left, piece.length));
  }
}

async function tensorsOf() {
  if (way.startsWith('streamed')) return { x: { dtype: 'U8', shape: [count], data: produce } };
  if (way === 'swapped' || way === 'turned') return await open(source);
  const file = safeOpen(source, { storage: 'mmap' });
  if (way.startsWith('mapped')) file.getTensor('x').bytes;
  return file;
}

// What the first stream of a process costs, compiled code above all, is not part of what a long one takes.
for await (const _ of serializeStream({ x: { dtype: 'U8', shape: [1], data: new Uint8Array(1) } }));
const options = way.endsWith('summed') ? { digests: true } : {};
const stream = serializeStream(await tensorsOf(), options);
globalThis.gc();
const before = processStatus('RssAnon');
let [anonymous, byteLength] = [0, 0];
for await (const piece of stream) {
  byteLength += piece.length;
  // By itself V8 collects used pieces when some 32 MB of them have piled up.
  globalThis.gc();
  anonymous = Math.max(anonymous, processStatus('RssAnon') - before);
}
console.log(JSON.stringify({ anonymous, byteLength, announced: stream.byteLength }));
