// Reads a pickle of 48 MiB that repeats some opcodes; prints its processor time and memory.
import { readPickle } from '../../../../build/foreign/pickle/machine.js';
import { scanOpcodes } from '../../../../build/foreign/pickle/scan.js';
import { measured, referenceMilliseconds } from '../../../support/processor-cost.mjs';

const [repeated] = process.argv.slice(2);
const unit = Buffer.from(repeated, 'hex');
const bytes = Buffer.concat([Buffer.from('80024e', 'hex'), Buffer.alloc(48 * 2 ** 20 - 3, unit)]);
const host = {
  global: () => undefined,
  call: () => null,
  build: (target) => target,
  persistent: () => null,
};

const { rss } = process.memoryUsage();
const read = measured(() => {
  try {
    readPickle(bytes, 0, host);
    return 'none';
  } catch ({ code }) {
    return code;
  }
});
const byteLength = process.memoryUsage().rss - rss;
const scan = measured(() => scanOpcodes(bytes).problem);
console.log(
  JSON.stringify({
    ...{ code: read.result, byteLength, problem: scan.result },
    milliseconds: referenceMilliseconds(read),
    scanMilliseconds: referenceMilliseconds(scan),
  }),
);
