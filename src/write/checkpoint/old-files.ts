/** Finds files of an earlier checkpoint in a folder: those to be replaced, and those to be deleted last. */

import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { SafetensorsError } from '../../errors/errors.js';
import { readIndex } from '../../file/read-index.js';
import type { FilenamePattern } from '../../file/shards/file-names.js';
import { chooseModel } from '../../file/shards/model-choice.js';
import { retryHere } from '../../platform/io/dropped-files.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { TemporaryNames } from '../../platform/io/temporary-names.js';
import { runSync } from '../../work/work.js';
import { innerPath } from '../replacement/inner-paths.js';
import type { LikeFile } from '../replacement/permissions.js';
import { type OwnFiles, type ReplacedFile, replacedAmong } from '../replacement/replaced-files.js';
import { resolveTarget } from '../replacement/target.js';
import { ReplacementRecord } from './replacement-record.js';

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

/** The files of a folder before a replacement. */
export interface OldFolder {
  readonly folder: string;
  /** Names of all files in the folder. */
  readonly names: readonly string[];
  readonly pattern: FilenamePattern;
  readonly temporary: TemporaryNames;
}

/**
 * Checks every file that a new checkpoint replaces or deletes. Returns one file of the old checkpoint, if any.
 *
 * @throws As {@link oldFileOf}
 */
export function requireReplaceable(
  contents: OldFolder,
  newNames: Iterable<string>,
): LikeFile | undefined {
  const { folder, pattern } = contents;
  let like: LikeFile | undefined;
  for (const name of new Set([...newNames, ...oldCheckpointIn(contents)])) {
    const old = oldFileOf(folder, name);
    if (pattern.owns(name)) like ??= old;
  }
  return like;
}

/**
 * Returns the files of the checkpoint in the folder under the names of the pattern: its indexes and their shards, and
 * the single file, which some readers prefer to an index; or all shards of a checkpoint without an index. Other files
 * of such names, like some shards of an index that is gone, belong to no checkpoint: they stay.
 */
function oldCheckpointIn({ folder, names, pattern, temporary }: OldFolder): Set<string> {
  const present = new Set(names);
  const found = new Set(names.filter((name) => pattern.isIndex(name)));
  for (const index of [...found]) {
    for (const name of namedBy(join(folder, index))) {
      const isOwned = pattern.owns(name) || temporary.isLeftOver(name);
      if (isOwned && present.has(name)) found.add(name);
    }
  }
  const single = pattern.filename(1, 1);
  if (present.has(single)) found.add(single);
  return found.size > 0
    ? found
    : new Set(unindexedAmong(names.filter((name) => pattern.owns(name))));
}

/** The shards of a checkpoint without an index, by the names of its files. */
function unindexedAmong(names: readonly string[]): readonly string[] {
  const { value, done } = chooseModel({ files: names }).next();
  return done === true && value.kind === 'shards' ? [...value.shards.values()] : [];
}

/**
 * Names of the shards of an index; none for a text that is no index, or a link that leads nowhere.
 *
 * @throws errors of the system: files that only it names would stay
 */
function namedBy(index: string): readonly string[] {
  try {
    return runSync(readIndex(index, {})).shards;
  } catch (error) {
    if (error instanceof SafetensorsError || hasCode(error, ['ENOENT'])) return [];
    throw error;
  }
}

/** Files that a replacement deletes. */
interface FoundStaleFiles {
  /** Names in the order of their deletion. */
  readonly stale: readonly string[];
  /** Those that a killed replacement left, and that belong to no checkpoint. */
  readonly leftOver: ReadonlySet<string>;
}

/**
 * Returns the files of the old checkpoint, and those that a killed replacement left, that are not in the new
 * checkpoint. Call it before the new index is in place. `kept` are the names of the new checkpoint's files.
 */
export function staleAmong(contents: OldFolder, kept: ReadonlySet<string>): FoundStaleFiles {
  const { folder, names, pattern, temporary } = contents;
  const old = oldCheckpointIn(contents);
  const record = ReplacementRecord.read(join(folder, temporary.record));
  const isLeftOver = (name: string): boolean =>
    temporary.isLeftOver(name) || (pattern.owns(name) && record.has(folder, name));
  const leftOver = new Set(names.filter((name) => !old.has(name) && isLeftOver(name)));
  const stale = names
    .filter((name) => !kept.has(name) && (old.has(name) || leftOver.has(name)))
    .sort();
  // Indexes first: an index without its shards would be half a checkpoint.
  const indexes = stale.filter((name) => pattern.isIndex(name));
  return { stale: [...new Set([...indexes, ...stale])], leftOver };
}

/** Files that a new checkpoint treats in another way. */
interface OldFilesOptions {
  /** Names of files that it deletes, whatever is in them. */
  readonly obsolete?: readonly string[];
  /** The files of its source. */
  readonly own?: OwnFiles | undefined;
  /** Names of its files that are there already. */
  readonly unchanged?: ReadonlySet<string>;
}

/** What a new checkpoint does to the files of its folder. */
export interface OldFiles {
  /** Names of the files of an earlier or an unfinished checkpoint that it deletes. */
  readonly deleted: readonly string[];
  /** The files that it replaces or deletes, without those of its source and without leftovers of killed saves. */
  readonly replaced: readonly ReplacedFile[];
}

/**
 * Returns the files that a checkpoint of these names would replace or delete in the folder, obsolete ones too. Changes
 * nothing.
 *
 * @throws As {@link oldFileOf}
 */
export function oldFilesOf(
  folder: string,
  pattern: FilenamePattern,
  newNames: readonly string[],
  { obsolete = [], own, unchanged }: OldFilesOptions = {},
): OldFiles {
  const all = oldNames(folder);
  const temporary = new TemporaryNames(pattern.text);
  // Abandoned temporary files are deleted without being reported.
  const names = all.filter((name) => !temporary.isUnfinished(name));
  const contents = { folder, names, pattern, temporary };
  requireReplaceable(contents, newNames);
  const { stale, leftOver } = staleAmong(contents, new Set(newNames));
  const deleted = [...stale, ...names.filter((name) => obsolete.includes(name))];
  const isGone = (name: string): boolean => !unchanged?.has(name) && !leftOver.has(name);
  const gone = [...newNames, ...deleted].filter(isGone);
  return { deleted, replaced: replacedAmong(folder, gone, own) };
}

/** Empty for a folder that does not exist yet. */
function oldNames(folder: string): string[] {
  try {
    return retryHere(() => readdirSync(folder));
  } catch (error) {
    if (hasCode(error, ['ENOENT'])) return [];
    throw error;
  }
}
