// For a library whose clock stands still, a millisecond never passes. Prints which calls notice that a file was cut
// short.
import { mkdtempSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';

process.hrtime.bigint = () => 0n;
const { safeOpen, serialize } = await import('../../../../lib/index.js');

const folder = mkdtempSync(join(tmpdir(), 'safetensors-mmap-'));
let files = 0;

/** A file that was asked about. */
function wholeFile() {
  const path = join(folder, `${files++}.safetensors`);
  const a = { dtype: 'F32', shape: [65_536], data: new Float32Array(65_536) };
  writeFileSync(path, serialize({ a }));
  const file = safeOpen(path);
  return { path, file, tensor: file.getTensor('a') };
}

/** The same, and it was then cut short. */
function cutFile() {
  const whole = wholeFile();
  truncateSync(whole.path, 4096);
  return whole;
}

async function outcome(use) {
  try {
    await use(cutFile());
    return 'passes';
  } catch ({ code }) {
    return code;
  }
}

console.log(
  JSON.stringify({
    getTensor: await outcome(({ file }) => file.getTensor('a')),
    bytes: await outcome(({ tensor }) => tensor.bytes),
    copy: await outcome(({ tensor }) => tensor.copy()),
    load: await outcome(({ file }) => file.readTensors()),
    prefetch: await outcome(({ file }) => file.prefetch()),
    toFloat32: await outcome(({ tensor }) => tensor.toFloat32()),
    afterReading: await outcome(({ file, tensor }) => {
      tensor.bytes.at(-1);
      file.getTensor('a');
    }),
    afterReadingAnother: await outcome(({ tensor }) => {
      const { file } = wholeFile();
      tensor.bytes.at(-1);
      file.getTensor('a');
    }),
  }),
);
