/** Which files of a repository a local copy of it needs: its weights, their index, and its configurations. */

import { parseCheckpointIndex } from '../../file/shards/checkpoint-index.js';
import { indexedNameOf, SHARD_NUMBER, singleNameOf } from '../../file/shards/file-choice.js';
import { PIPELINE_FILE } from '../../file/shards/file-names.js';
import { chooseModel, isChosen } from '../../file/shards/model-choice.js';
import {
  hasWeightsExtension,
  hasWeightsName,
  TORCH_SHARD_EXTENSION,
} from '../../file/shards/shard-paths.js';
import { componentsIn } from '../../file/source/pipeline.js';
import { splitPath } from './source-files.js';

const CONFIGURATIONS: readonly string[] = ['config.json', PIPELINE_FILE];

/** Reads a small file of the copy; null where it is not there. */
type ReadFile = (name: string) => Promise<Uint8Array | null>;

/**
 * Returns the needed files among those of a repository, by their paths in it.
 *
 * @param present those of them that the copy has, in whatever state
 */
export async function neededFiles(
  listed: readonly string[],
  present: ReadonlySet<string>,
  read: ReadFile,
): Promise<ReadonlySet<string>> {
  const folders = new Map<string, string[]>();
  for (const path of listed) {
    const [folder] = splitPath(path);
    const paths = folders.get(folder);
    if (paths === undefined) folders.set(folder, [path]);
    else paths.push(path);
  }
  const components = await componentsOf(present, read);
  const needed = new Set<string>();
  for (const [folder, paths] of folders) {
    const here = paths.map((path) => path.slice(folder.length));
    const mine = here.filter((name) => present.has(folder + name));
    if (folder !== '' && mine.length === 0 && !components.has(folder.slice(0, -1))) continue;
    const weights = await weightsOf(here, mine, (name) => read(folder + name));
    for (const name of here) {
      if (weights.has(name) || CONFIGURATIONS.includes(name)) needed.add(folder + name);
    }
  }
  return needed;
}

/** The folders of the models of a pipeline. */
async function componentsOf(
  present: ReadonlySet<string>,
  read: ReadFile,
): Promise<ReadonlySet<string>> {
  const bytes = present.has(PIPELINE_FILE) ? await read(PIPELINE_FILE) : null;
  if (bytes === null) return new Set();
  try {
    return new Set(componentsIn(new TextDecoder().decode(bytes), PIPELINE_FILE));
  } catch {
    // A damaged file, which is a problem already.
    return new Set();
  }
}

/** The names of the model's files in a folder: those that belong to the files which are there, or else the model's. */
async function weightsOf(
  here: readonly string[],
  mine: readonly string[],
  read: ReadFile,
): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const addModel = (single: string): void => {
    for (const name of here) {
      const isShard = SHARD_NUMBER.test(name) && singleNameOf(name) === single;
      if (isShard || (isIndex(name) && indexedNameOf(name) === single)) found.add(name);
    }
  };
  const weights = mine.filter(hasWeightsName);
  for (const name of weights) {
    if (SHARD_NUMBER.test(name)) addModel(singleNameOf(name));
    if (!isIndex(name)) continue;
    const shards = shardsIn(name, await read(name));
    if (shards === null) addModel(indexedNameOf(name));
    else for (const shard of shards) found.add(shard);
  }
  if (weights.length > 0) return found;
  const { value, done } = chooseModel({ files: here }).next();
  if (done !== true) addModel(indexedNameOf(value));
  else if (isChosen(value)) for (const name of value.shards.values()) found.add(name);
  const all = here.filter(hasWeightsExtension);
  if (all.length === 1) found.add(all[0] as string);
  return found;
}

function isIndex(name: string): boolean {
  return hasWeightsName(name) && !hasWeightsExtension(name);
}

/** The files that an index lists; null for an index that cannot be read. */
function shardsIn(name: string, bytes: Uint8Array | null): readonly string[] | null {
  if (bytes === null) return null;
  const isTorch = name.includes(`${TORCH_SHARD_EXTENSION}.index.`);
  const shardExtension = isTorch ? TORCH_SHARD_EXTENSION : undefined;
  try {
    return parseCheckpointIndex(bytes, { shardExtension, acceptsIncomplete: true }).shards;
  } catch {
    return null;
  }
}
