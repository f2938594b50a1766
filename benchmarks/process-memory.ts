import { readFileSync } from 'node:fs';

/** Resident memory of a process in bytes, as the kernel counts it. */
export interface Memory {
  /** `RssAnon`: heap, stacks, and written pages of copy-on-write mappings: private memory. */
  readonly anonymous: number;
  /** `RssFile`: pages that belong to files, which the system can take back at any time. */
  readonly fileBacked: number;
  /** `Pss`: all of it, where a page that n processes have counts one n-th for each. */
  readonly proportional: number;
}

/** Memory of a process now; undefined where there is no `/proc` (anything but Linux). */
export function readMemory(pid: number | 'self' = 'self'): Memory | undefined {
  if (process.platform !== 'linux') return undefined;
  const bytes = (text: string, field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]) * 1024;
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const rollup = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return {
    anonymous: bytes(status, 'RssAnon'),
    fileBacked: bytes(status, 'RssFile'),
    proportional: bytes(rollup, 'Pss'),
  };
}
