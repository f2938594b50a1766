/** Names of files of distributed checkpoints, and the ranks in them. */

import { rankOfPart } from '../../file/shards/incomplete-models.js';

/** The list of a checkpoint of `.distcp` files. */
export const METADATA_FILE = '.metadata';

/** Names the checkpoint of files in safetensors, as it names shards without an index. */
export const IMPLIED_INDEX = 'model.safetensors.index.json';

/** Whether names in a folder are those of a distributed checkpoint, and of nothing else with weights. */
export function isDistributed(names: readonly string[]): boolean {
  if (names.includes(METADATA_FILE)) return names.some((name) => name.endsWith('.distcp'));
  const weights = names.filter((name) => name.endsWith('.safetensors'));
  return weights.length > 0 && weights.every((name) => rankOfPart(name) !== undefined);
}

/** The ranks of files with these names, from 0 on; those between that have no file. */
export function ranksOf(names: readonly string[]): {
  readonly count: number;
  readonly missing: number[];
} {
  const found = new Set(names.map(rankOfPart));
  const count = Math.max(...names.map((name) => (rankOfPart(name) ?? 0) + 1));
  // More files than ranks in the name of one: a hostile number must not be counted to.
  const missing: number[] = [];
  for (let rank = 0; rank < count && missing.length <= names.length; rank++) {
    if (!found.has(rank)) missing.push(rank);
  }
  return { count, missing };
}
