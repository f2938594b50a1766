// Reads the files of its arguments in all ways, and prints the time and memory of each.
import { writeFileSync } from 'node:fs';
import process from 'node:process';
import { setImmediate } from 'node:timers/promises';
import { SafetensorsError } from '../../../build/errors/errors.js';
import { openNumpy } from '../../../build/foreign/numpy/open-numpy.js';
import { scanPickle } from '../../../build/foreign/scan/scan-file.js';
import { openTorchCheckpoint } from '../../../build/foreign/torch/open.js';
import { processStatus } from '../../support/process-memory.mjs';
import { measured, referenceMilliseconds } from '../../support/processor-cost.mjs';

const READERS = [
  (path) => openTorchCheckpoint(path),
  (path) => openTorchCheckpoint(path, { root: [], unknownGlobals: 'placeholder', storage: 'read' }),
  openNumpy,
];

let messageLength = 0;

/** Opens a file and takes the bytes of all tensors; returns the result, and the length of the message. */
function read(open, path) {
  try {
    const file = open(path);
    for (const [, tensor] of file) tensor.bytes;
    file.close({ detach: true });
    return 'tensors';
  } catch (error) {
    if (error instanceof SafetensorsError) {
      messageLength = Math.max(messageLength, error.message.length);
      return error.code;
    }
    throw error;
  }
}

const LITTLE_BYTE_LENGTH = 2e7;

/** Bytes of objects and buffers, garbage included. */
function usedByteLength() {
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** As much garbage takes longer to collect than it matters. */
const MAX_GARBAGE_BYTE_LENGTH = 2e6;

const bare = processStatus('VmRSS');
let live = usedByteLength();
for (const path of process.argv.slice(2)) {
  const outcomes = [];
  messageLength = 0;
  const costs = [];
  let byteLength = 0;
  for (const use of [
    ...READERS.map((open) => () => read(open, path)),
    // Does all the work of a scan without checksums, and more.
    () => scanPickle(path, { verify: true }).verdict,
  ]) {
    // Garbage of what was read before is not counted; to collect it takes longer than to read a small file.
    const hasGarbage = usedByteLength() - live > MAX_GARBAGE_BYTE_LENGTH;
    if (hasGarbage && processStatus('VmRSS') - bare > LITTLE_BYTE_LENGTH) {
      globalThis.gc();
      // Memory of zlib is given back behind the collection, in a turn of the event loop.
      await setImmediate();
      live = usedByteLength();
    }
    // The peak begins again.
    writeFileSync('/proc/self/clear_refs', '5');
    const cost = measured(use);
    outcomes.push(cost.result);
    byteLength = Math.max(byteLength, processStatus('VmHWM') - bare);
    costs.push(cost);
  }
  // Takes memory itself, so after all uses.
  const milliseconds = Math.max(...costs.map(referenceMilliseconds));
  console.log(JSON.stringify({ path, outcomes, milliseconds, byteLength, messageLength }));
}
