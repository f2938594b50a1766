import { readFileSync } from 'node:fs';

/** Resident memory of a process in bytes. */
export interface Memory {
  /** Private memory: heap, stacks, and written pages of copy-on-write mappings. */
  readonly anonymous: number;
  /** Pages that belong to files, which the system can take back at any time. */
  readonly fileBacked: number;
}

/** Memory of this process now; undefined where there is no `/proc` (anything but Linux). */
export function readMemory(): Memory | undefined {
  if (process.platform !== 'linux') return undefined;
  const status = readFileSync('/proc/self/status', 'utf8');
  const kibibytes = (field: string): number =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1]);
  return { anonymous: kibibytes('RssAnon') * 1024, fileBacked: kibibytes('RssFile') * 1024 };
}
