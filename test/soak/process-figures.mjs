/** What the kernel says about a process. */
import { readdirSync, readFileSync } from 'node:fs';

/**
 * What can be read while the process works: private memory and descriptors. Private memory is what is anonymous: heap, stacks,
 * pages of mappings that were written to. `Private_Dirty` would also have pages of a file that was just saved
 * and is mapped here only, which are the system's.
 */
export function processFigures(pid) {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return {
    privateBytes: bytesOf(rollup, 'Anonymous') + bytesOf(rollup, 'Swap'),
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

function bytesOf(text, field) {
  return 1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)[1]);
}

/**
 * Mappings of three kinds, their number and bytes: those of files; anonymous ones with a page in memory; and the empty
 * ones, which are addresses alone. Among these the addon keeps the addresses of the last 4 096 files that were
 * detached, so that a bare pointer reads zeros: their number grows to that limit, and costs nothing.
 */
export function mappingFigures(pid) {
  const figures = { fileMappings: 0, fileBytes: 0, mappings: 0, mappedBytes: 0, emptyMappings: 0 };
  const entries = readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  for (const entry of entries) {
    const byteLength = bytesOf(entry, 'Size');
    if (/^\S+ \S+ \S+ \S+ \S+ +\//.test(entry)) {
      figures.fileMappings++;
      figures.fileBytes += byteLength;
    } else if (bytesOf(entry, 'Rss') + bytesOf(entry, 'Swap') > 0) {
      figures.mappings++;
      figures.mappedBytes += byteLength;
    } else {
      figures.emptyMappings++;
    }
  }
  return figures;
}

/** For how many microseconds some process of this machine has waited for a processor; 0 where the kernel does not tell. */
export function pressureTotal() {
  try {
    return Number(/^some .*total=(\d+)/.exec(readFileSync('/proc/pressure/cpu', 'utf8'))?.[1]);
  } catch {
    return 0;
  }
}
