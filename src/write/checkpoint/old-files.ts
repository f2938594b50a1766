/** What a folder has of an earlier checkpoint: files that new ones replace, and files that are deleted last. */

import { readdirSync, statSync } from 'node:fs';
import type { FilenamePattern } from '../../file/shards/file-names.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { TemporaryNames } from '../../platform/io/temporary-names.js';
import { innerPath } from '../replacement/inner-paths.js';
import type { LikeFile } from '../replacement/permissions.js';
import { resolveTarget } from '../replacement/target.js';

/**
 * The file of a name, which a new one is to replace; undefined when there is none.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB` for what must not
 *   be replaced; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for a name below a link
 */
export function oldFileOf(folder: string, name: string): LikeFile | undefined {
  const path = innerPath(folder, name);
  // A link that leads nowhere is replaced like any other.
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
  const { path: realPath, stats } = resolveTarget(path, path);
  return stats === undefined ? undefined : { path: realPath, stats };
}

/**
 * Looks at every file that a new checkpoint replaces or deletes. Gives one that belongs to the old checkpoint,
 * if there is one.
 *
 * @throws As {@link oldFileOf}
 */
export function requireReplaceable(
  folder: string,
  names: readonly string[],
  pattern: FilenamePattern,
  newNames: Iterable<string>,
): LikeFile | undefined {
  const owned = names.filter((name) => pattern.owns(name));
  let like: LikeFile | undefined;
  for (const name of new Set([...newNames, ...owned])) {
    const old = oldFileOf(folder, name);
    if (pattern.owns(name)) like ??= old;
  }
  return like;
}

/** Files that the new checkpoint does not have, in the order in which they are deleted. */
export function staleAmong(
  names: readonly string[],
  pattern: FilenamePattern,
  temporary: TemporaryNames,
  kept: ReadonlySet<string>,
): string[] {
  const others = names.filter((name) => !kept.has(name)).sort();
  const stale = others.filter((name) => pattern.owns(name) || temporary.isLeftOver(name));
  // Indexes first: an index without its shards would be half a checkpoint.
  const indexes = stale.filter((name) => pattern.isIndex(name));
  return [...new Set([...indexes, ...stale])];
}

/**
 * The files that a checkpoint of these names would delete in the folder. Deletes none.
 *
 * @throws As {@link oldFileOf}
 */
export function wouldDelete(
  folder: string,
  pattern: FilenamePattern,
  newNames: readonly string[],
): string[] {
  const names = oldNames(folder);
  requireReplaceable(folder, names, pattern, newNames);
  const temporary = new TemporaryNames(pattern.text);
  // Files that somebody was writing go without being told of.
  const finished = names.filter((name) => !temporary.isUnfinished(name));
  return staleAmong(finished, pattern, temporary, new Set(newNames));
}

/** None for a folder that is not there yet. */
function oldNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (hasCode(error, ['ENOENT'])) return [];
    throw error;
  }
}
