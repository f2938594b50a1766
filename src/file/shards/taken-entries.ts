/** The tensors of a checkpoint for a rewrite, from all of its shards. */

import type { FileContents } from '../../header/file-contents.js';
import type { CheckpointIndex } from './checkpoint-index.js';
import { missingTensor } from './contents.js';

/** The entries of every shard to take, and what is left. */
interface TakenEntries {
  /** For every shard, 1 at each entry to take. */
  readonly taken: readonly Uint8Array[];
  /** Names of which a shard has a tensor that is not taken, because another shard's is; each once. */
  readonly duplicates: readonly string[];
}

/**
 * Takes every name once: from the shard that the index names if it is there, else from the first that has it. An index
 * may name fewer tensors than the shards have, and loaders that read whole files load them all.
 *
 * @param path of the index
 * @param unreadable names that a shard has and that cannot be read: taken from no other
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` for a name of the index that no shard has
 */
export function takenEntries(
  shards: readonly FileContents[],
  index: CheckpointIndex | null,
  path: string,
  unreadable: ReadonlySet<string> = new Set(),
): TakenEntries {
  const { taken, missing } = meantByIndex(shards, index);
  if (index === null) return { taken, duplicates: [] };
  const strays = new Set<string>();
  const duplicates = new Set<string>();
  for (const [shard, contents] of shards.entries()) {
    const own = taken[shard] as Uint8Array;
    for (let entry = own.indexOf(0); entry !== -1; entry = own.indexOf(0, entry + 1)) {
      const name = contents.name(entry);
      const isListed = index.find(name) !== -1 && !missing.has(name);
      const isElsewhere = isListed || unreadable.has(name);
      if (isElsewhere || strays.size === strays.add(name).size) duplicates.add(name);
      else own[entry] = 1;
    }
  }
  for (const [name, shard] of missing) {
    if (strays.has(name) || unreadable.has(name)) continue;
    throw missingTensor(path, index.shards[shard] as string, name);
  }
  return { taken, duplicates: [...duplicates] };
}

/**
 * Returns 1 for every entry of a shard that the index names there, and the indexed names that the shard lacks, with
 * the shard.
 */
function meantByIndex(
  shards: readonly FileContents[],
  index: CheckpointIndex | null,
): { taken: Uint8Array[]; missing: Map<string, number> } {
  const missing = new Map<string, number>();
  const taken = shards.map((contents, shard) => {
    const isMeant = new Uint8Array(contents.size);
    if (index === null) return isMeant.fill(1);
    const entries = index.entriesOf(shard);
    const places = index.placesIn(shard, contents);
    for (let i = 0; i < places.length; i++) {
      const place = places[i] as number;
      if (place === -1) missing.set(index.name(entries[i] as number), shard);
      else isMeant[place] = 1;
    }
    return isMeant;
  });
  return { taken, missing };
}
