// Shared by the programs of this room: parallel lanes of work, and folders to work in.
import { existsSync, mkdtempSync, realpathSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const LANES = 2;

/** Runs `work` for every item, several at a time; returns the results in their order. */
export async function inLanes(items, work) {
  const results = [];
  const entries = [...items].entries();
  const lane = async () => {
    for (const [i, item] of entries) results[i] = await work(item);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return results;
}

/** A new folder, in memory where there is such a place: nothing here needs a disk. */
export function temporaryFolder() {
  const memory = existsSync('/dev/shm') ? '/dev/shm' : tmpdir();
  return realpathSync(mkdtempSync(join(memory, 'safetensors-mmap-faults-')));
}
