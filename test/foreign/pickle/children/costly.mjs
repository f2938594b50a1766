// Reads a pickle of 64 MiB that repeats some opcodes; prints how long that took, and what it took of memory.
import { readPickle } from '../../../../build/foreign/pickle/machine.js';
import { scanOpcodes } from '../../../../build/foreign/pickle/scan.js';

const [repeated] = process.argv.slice(2);
const unit = Buffer.from(repeated, 'hex');
const bytes = Buffer.concat([Buffer.from('80024e', 'hex'), Buffer.alloc(2 ** 26 - 3, unit)]);
const host = {
  global: () => undefined,
  call: () => null,
  build: (target) => target,
  persistent: () => null,
};

const { rss } = process.memoryUsage();
const began = performance.now();
let code = 'none';
try {
  readPickle(bytes, 0, host);
} catch (error) {
  ({ code } = error);
}
const milliseconds = performance.now() - began;
const byteLength = process.memoryUsage().rss - rss;
const scanBegan = performance.now();
const { problem } = scanOpcodes(bytes);
const scanMilliseconds = performance.now() - scanBegan;
console.log(JSON.stringify({ code, milliseconds, byteLength, problem, scanMilliseconds }));
