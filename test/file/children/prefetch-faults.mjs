// Reads a file that is not in the page cache, after a prefetch or without one, and prints the page
// faults that waited for the disk, and private memory. The cache was dropped by the parent.
import { safeOpen } from '../../../lib/index.js';
import { processStatus } from '../../support/process-memory.mjs';

const [path, how] = process.argv.slice(2);

/** Backwards: a reader that goes forwards mostly finds what the system has read ahead. */
function readAll(file) {
  let sum = 0;
  for (const name of file.offsetKeys().reverse()) {
    const { bytes } = file.getTensor(name);
    for (let i = bytes.length - 1; i >= 0; i -= 512) sum += bytes[i];
  }
  return sum;
}

const file = safeOpen(path);
const residentBefore = file.residency();
const anonymousBefore = processStatus('RssAnon');
const progress = [];
const onProgress = (report) => progress.push(report);
if (how === 'prefetch') await file.prefetch(undefined, { onProgress });
if (how === 'twice') await Promise.all([file.prefetch(), file.prefetch(file.keys().reverse())]);
const residentAfter = file.residency();
const faultsBefore = process.resourceUsage();
const sum = readAll(file);
const faultsAfter = process.resourceUsage();
console.log(
  JSON.stringify({
    byteLength: file.byteLength(),
    residentBefore,
    residentAfter,
    anonymous: processStatus('RssAnon') - anonymousBefore,
    majorFaults: faultsAfter.majorPageFault - faultsBefore.majorPageFault,
    minorFaults: faultsAfter.minorPageFault - faultsBefore.minorPageFault,
    progress: progress.at(-1),
    sum,
  }),
);
