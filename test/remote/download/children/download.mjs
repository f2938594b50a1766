// Downloads in a separate process, which may be killed; prints the memory that it took.
import { readdirSync } from 'node:fs';
import { download } from '../../../../lib/index.js';
import { processStatus } from '../../../support/process-memory.mjs';

const [source, target, announce] = process.argv.slice(2);
const before = processStatus('VmRSS');
let isAnnounced = false;
const { downloadedBytes, reusedBytes } = await download(source, target, {
  durable: false,
  onProgress: ({ bytes, totalBytes }) => {
    if (isAnnounced || announce === undefined || bytes < 0.75 * totalBytes) return;
    isAnnounced = true;
    console.log('announced');
  },
});
const grown = processStatus('VmHWM') - before;
const descriptors = readdirSync('/proc/self/fd').length;
console.log(JSON.stringify({ downloadedBytes, reusedBytes, grown, descriptors }));
