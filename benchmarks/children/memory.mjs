/** Memory of a process as the kernel counts it, in bytes; undefined anywhere but on Linux. */
import { readFileSync, writeFileSync } from 'node:fs';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

function fieldOf(pid, file, name) {
  if (process.platform !== 'linux') return undefined;
  const text = readFileSync(`/proc/${pid}/${file}`, 'utf8');
  const [, count, unit] = new RegExp(`^${name}:\\s+(\\d+)( kB)?$`, 'm').exec(text) ?? [];
  return Number(count) * (unit === undefined ? 1 : 1024);
}

/**
 * `anonymous` is private memory: heap, stacks, written pages of copy-on-write mappings; `fileBacked` are pages
 * that belong to files, which the system can take back at any time; `proportional` is all of it, where a page
 * that n processes have counts one n-th for each.
 */
export function readMemory(pid = 'self') {
  if (process.platform !== 'linux') return undefined;
  return {
    anonymous: fieldOf(pid, 'status', 'RssAnon'),
    fileBacked: fieldOf(pid, 'status', 'RssFile'),
    proportional: fieldOf(pid, 'smaps_rollup', 'Pss'),
  };
}

/** The private memory of another process; undefined when it has ended, and anywhere but on Linux. */
export function privateMemory(pid) {
  try {
    return fieldOf(pid, 'status', 'RssAnon') || undefined;
  } catch {
    return undefined;
  }
}

/** The highest resident memory of this process so far. */
export const peakMemory = () => fieldOf('self', 'status', 'VmHWM');

/** Forgets the highest value so far. */
export const forgetPeak = () => writeFileSync('/proc/self/clear_refs', '5');

/** Bytes that this process has read from the disk, read ahead included. */
export const diskBytes = () => fieldOf('self', 'io', 'read_bytes');

/** The collector as a function. */
export function exposeCollector() {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
}
