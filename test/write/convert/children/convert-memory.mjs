// Converts a file and prints by how much the memory of the process grew meanwhile, in bytes: private memory,
// looked at again and again, and the most that was resident.
import { convert } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const [source, target] = process.argv.slice(2);
globalThis.gc();
const before = { resident: processStatus('VmHWM'), anonymous: processStatus('RssAnon') };
let anonymous = 0;
const timer = setInterval(() => {
  anonymous = Math.max(anonymous, processStatus('RssAnon') - before.anonymous);
}, 1);
await convert(source, target, { durable: false });
clearInterval(timer);
const resident = processStatus('VmHWM') - before.resident;
console.log(JSON.stringify({ anonymous, resident }));
