/** What the kernel says about a process. */
import { readdirSync, readFileSync } from 'node:fs';

/**
 * Private memory is what is anonymous: heap, stacks, pages of mappings that were written to. `Private_Dirty` would
 * also have pages of a file that was just saved and is mapped here only, which are the system's. Mappings
 * without any permission cost no memory: there the addon keeps the addresses of the last 4 096 detached
 * files, so they are counted for themselves.
 */
export function processFigures(pid) {
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  const bytes = (field) =>
    1024 * Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(rollup)[1]);
  const figures = {
    privateBytes: bytes('Anonymous') + bytes('Swap'),
    mappings: 0,
    mappedBytes: 0,
    reservedMappings: 0,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const [, begin, end, permissions] = /^([0-9a-f]+)-([0-9a-f]+) (\S{3})/.exec(line) ?? [];
    if (permissions === undefined) continue;
    if (permissions === '---') {
      figures.reservedMappings++;
    } else {
      figures.mappings++;
      figures.mappedBytes += Number.parseInt(end, 16) - Number.parseInt(begin, 16);
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
