// Slices a file that is read, without a pause, and prints the memory that this took at most.
import { safeOpen } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const file = safeOpen(process.argv[2], { storage: 'read' });
const tensor = file.getTensor('rows');
const before = processStatus('VmRSS');
for (let i = 0; i < 10_000; i++) void tensor.slice(i % 16).data;
console.log(JSON.stringify({ grown: processStatus('VmHWM') - before }));
