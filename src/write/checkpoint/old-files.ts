/** Finds files of an earlier checkpoint in a folder: those to be replaced, and those to be deleted last. */

import { readdirSync, statSync } from 'node:fs';
import type { FilenamePattern } from '../../file/shards/file-names.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { TemporaryNames } from '../../platform/io/temporary-names.js';
import { innerPath } from '../replacement/inner-paths.js';
import type { LikeFile } from '../replacement/permissions.js';
import { resolveTarget } from '../replacement/target.js';

/**
 * Returns the existing file that a new one will replace; undefined if the name is free.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB` for a path that must not be
 *   replaced; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for a name below a link
 */
export function oldFileOf(folder: string, name: string): LikeFile | undefined {
  const path = innerPath(folder, name);
  // A dangling link is replaced like any link.
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return undefined;
  const { path: realPath, stats } = resolveTarget(path, path);
  return stats === undefined ? undefined : { path: realPath, stats };
}

/**
 * Checks every file that a new checkpoint replaces or deletes. Returns one file of the old checkpoint, if any.
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

/** Returns the files that are not in the new checkpoint, in the order of their deletion. */
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
 * Returns the files that a checkpoint of these names would delete in the folder, obsolete ones too. Deletes nothing.
 *
 * @throws As {@link oldFileOf}
 */
export function wouldDelete(
  folder: string,
  pattern: FilenamePattern,
  newNames: readonly string[],
  obsolete: readonly string[] = [],
): string[] {
  const names = oldNames(folder);
  requireReplaceable(folder, names, pattern, newNames);
  const temporary = new TemporaryNames(pattern.text);
  // Abandoned temporary files are deleted without being reported.
  const finished = names.filter((name) => !temporary.isUnfinished(name));
  const stale = staleAmong(finished, pattern, temporary, new Set(newNames));
  return [...stale, ...names.filter((name) => obsolete.includes(name))];
}

/** Empty for a folder that does not exist yet. */
function oldNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (hasCode(error, ['ENOENT'])) return [];
    throw error;
  }
}
