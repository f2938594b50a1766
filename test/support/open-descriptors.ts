/** Lists the open descriptors of a test's own files. */
import { readdirSync, readlinkSync, realpathSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';
import process from 'node:process';
import { temporaryPath } from './make-file.js';

/** An open descriptor and the path of its file. */
export interface OpenDescriptor {
  readonly fd: number;
  readonly path: string;
}

/**
 * Descriptors of this process on a file, or on a folder and everything below it; the temporary folder of the test by
 * default. Deleted files are included. Always empty on systems without `/proc`.
 *
 * The number of all descriptors is no substitute: test files share a process, and the garbage collector may close
 * files that an earlier test dropped between two counts.
 */
export function openDescriptors(path: string = temporaryPath('')): OpenDescriptor[] {
  if (process.platform !== 'linux') return [];
  const target = canonicalPath(path);
  const found: OpenDescriptor[] = [];
  for (const name of readdirSync('/proc/self/fd')) {
    const opened = targetOf(name).replace(/ \(deleted\)$/, '');
    if (opened === target || opened.startsWith(target + sep)) {
      found.push({ fd: Number(name), path: opened });
    }
  }
  return found.sort((one, other) => one.fd - other.fd);
}

/** The path without symbolic links, as the kernel reports it. The file itself may be deleted. */
function canonicalPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return join(realpathSync(dirname(path)), basename(path));
  }
}

/** The file, pipe or socket of a descriptor; empty for the one by which the list was read, which is closed. */
function targetOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`);
  } catch {
    return '';
  }
}
