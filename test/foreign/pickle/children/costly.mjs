// Reads a pickle of 48 MiB that repeats some opcodes; prints its processor time and memory.
import { readPickle } from '../../../../build/foreign/pickle/machine.js';
import { scanOpcodes } from '../../../../build/foreign/pickle/scan.js';
import { slowness } from '../../../support/machine-speed.mjs';

const [repeated] = process.argv.slice(2);
const unit = Buffer.from(repeated, 'hex');
const bytes = Buffer.concat([Buffer.from('80024e', 'hex'), Buffer.alloc(48 * 2 ** 20 - 3, unit)]);
const host = {
  global: () => undefined,
  call: () => null,
  build: (target) => target,
  persistent: () => null,
};

/** Milliseconds of processor time, without waiting. */
function now() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const { rss } = process.memoryUsage();
const began = now();
let code = 'none';
try {
  readPickle(bytes, 0, host);
} catch (error) {
  ({ code } = error);
}
const readMilliseconds = now() - began;
const byteLength = process.memoryUsage().rss - rss;
const scanBegan = now();
const { problem } = scanOpcodes(bytes);
const scanned = now() - scanBegan;
const times = slowness();
const milliseconds = readMilliseconds / times;
const scanMilliseconds = scanned / times;
console.log(JSON.stringify({ code, milliseconds, byteLength, problem, scanMilliseconds }));
