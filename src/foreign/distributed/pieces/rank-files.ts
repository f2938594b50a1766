/** Names of files of distributed checkpoints, and the ranks in them. */

import { SafetensorsError } from '../../../errors/errors.js';
import { type PartFile, partFileOf } from '../../../file/shards/incomplete-models.js';

/** Most names in an error. */
const MAX_NAMED = 3;

/** The names of safetensors files of ranks among names in a folder. */
export function rankFileNames(names: readonly string[]): string[] {
  return names.filter((name) => partFileOf(name) !== undefined).sort();
}

/**
 * Returns how many ranks have files with these names.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` without names; `SAFETENSORS_MISSING_SHARDS` when a rank
 *   before the last one has no file, no rank has a file of a number, or the names declare different counts of files
 */
export function requireAllRanks(names: readonly string[], path: string): number {
  const parts = names.map((name) => partFileOf(name) as PartFile);
  if (parts.length === 0) {
    const message =
      'expected `.metadata` with `.distcp` files, or safetensors files of ranks; found neither';
    throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
  }
  const fail = (message: string): never => {
    throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path });
  };
  const counts = new Set(parts.map(({ count }) => count));
  if (counts.size > 1) {
    const declared = [...counts].slice(0, MAX_NAMED).join(' and ');
    fail(`the names of files declare ${declared} files: they are from different saves`);
  }
  const ranks = new Set(parts.map(({ rank }) => rank));
  const numbers = new Set(parts.map(({ number }) => number));
  const [count = 0] = counts;
  const last = parts.reduce((most, { rank }) => Math.max(most, rank), 0);
  requireSeries(ranks, last + 1, 0, (rank) => `shard-${padded(rank + 1)}`, 'ranks', fail);
  requireSeries(numbers, count, 1, (number) => `model-${padded(number)}`, 'files', fail);
  return last + 1;
}

/** Throws for numbers missing from a series of `count` from `first` on, and names the first ones. */
function requireSeries(
  found: ReadonlySet<number>,
  count: number,
  first: number,
  nameOf: (number: number) => string,
  what: string,
  fail: (message: string) => never,
): void {
  if (found.size === count) return;
  const missing: string[] = [];
  // A hostile name may declare a huge number: the first gaps are enough.
  for (let number = first; missing.length < MAX_NAMED && number < first + count; number++) {
    if (!found.has(number)) missing.push(nameOf(number));
  }
  fail(`${count - found.size} of ${count} ${what} are missing: ${missing.join(', ')}`);
}

function padded(number: number): string {
  return String(number).padStart(5, '0');
}
