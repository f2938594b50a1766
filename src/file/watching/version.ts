/** The version at a path: which files its checkpoint has now, and the folders in which the next one appears. */

import { dirname, join, resolve } from 'node:path';
import { identityOf, linkAt, listFolder, statExactly } from '../../platform/io/file-calls.js';
import type { Work } from '../../work/work.js';
import { foldersOfVersions } from '../cache/cache.js';
import type { CheckpointFiles } from '../checkpoint/find-files.js';
import { findSource, isPath } from '../checkpoint/find-source.js';
import { isHubUri, parseHubId } from '../hub/ids.js';
import { isOfProcess } from '../shards/file-problems.js';

/** What selects a checkpoint at a path. */
export interface VersionChoice {
  readonly variant?: string | undefined;
  readonly revision?: string | undefined;
}

/** The state of a path at a time. */
export interface Version {
  /** Equal ids mean the same unchanged files, or the same error. */
  readonly id: string;
  /** The shards by path, each with a text that identifies its file and its contents. */
  readonly shards: ReadonlyMap<string, string>;
  /** Whether it is a single file only because an index next to it lacks shards, which may be on their way. */
  readonly isSubstitute: boolean;
  /** Why there is no model. */
  readonly error: Error | undefined;
  /** Folders whose changes may mean a new version, each with its identity. */
  readonly folders: ReadonlyMap<string, string>;
  /** The stamps of all these files and folders. */
  readonly stamps: ReadonlyMap<string, string>;
}

/** Where `hf download` keeps what it has received so far, in a folder that it downloads into. */
const HUB_DOWNLOADS = '.cache/huggingface/download';

/**
 * Finds the version of a path, or of the id of a cached repository. Reads no shard.
 *
 * @throws Error `EMFILE` and the like; every other error is that of the version
 */
export function* versionAt(path: string, choice: VersionChoice): Work<Version> {
  const places = new Set<string>();
  if (!isHubUri(path)) places.add(resolve(path));
  let found: { readonly files?: CheckpointFiles; readonly error?: Error };
  try {
    const id = (yield* isPath(path)) ? null : parseHubId(path);
    if (id !== null) {
      for (const folder of foldersOfVersions(id, choice.revision)) places.add(folder);
    }
    found = yield* findSource(path, choice);
  } catch (error) {
    if (isOfProcess(error)) throw error;
    found = { error: error as Error };
  }
  const { files, error } = found;
  const shards = yield* stampsOf((files?.shards ?? []).map((shard) => shard.path));
  const stamps = new Map(shards);
  if (files !== undefined) stamps.set(files.path, yield* stampOf(files.path));
  const failure = error === undefined ? '' : `${Object(error).code} ${error.message}`;
  const id = `${failure}\n${Array.from(stamps, (entry) => entry.join(' ')).join('\n')}`;
  for (const file of stamps.keys()) places.add(resolve(file));
  const folders = yield* foldersOf(places);
  for (const [folder, stamp] of yield* stampsOf(folders.keys())) stamps.set(folder, stamp);
  const isSubstitute = files?.index === null && files.ignoredFiles.length > 0;
  return { id, shards, isSubstitute, error, folders, stamps };
}

/**
 * Whether all files and folders of a version are as they were. Much less work than to find the version, but a change
 * within the resolution of the clock of the file system may escape.
 */
export function* isUnchanged({ stamps }: Version): Work<boolean> {
  for (const [path, stamp] of stamps) if ((yield* stampOf(path)) !== stamp) return false;
  return true;
}

function* stampsOf(paths: Iterable<string>): Work<Map<string, string>> {
  const stamps = new Map<string, string>();
  for (const path of paths) stamps.set(path, yield* stampOf(path));
  return stamps;
}

/** Identifies a file and its contents, as far as the system shows it; empty for a missing file. */
function* stampOf(path: string): Work<string> {
  const stats = yield* statExactly(path);
  return stats === undefined ? '' : `${identityOf(stats)}:${stats.size}:${stats.mtimeNs}`;
}

/** The folders of paths and of all links on the way to them; of the paths those that are folders, too. */
function* foldersOf(places: ReadonlySet<string>): Work<Map<string, string>> {
  const candidates = new Set<string>();
  const seen = new Set<string>();
  const visit = function* (path: string, isPlace: boolean): Work<void> {
    if (isPlace) candidates.add(path).add(dirname(path));
    for (let at = path; !seen.has(at); at = dirname(at)) {
      seen.add(at);
      const target = yield* targetOf(at);
      if (target === undefined) continue;
      candidates.add(dirname(at));
      yield* visit(target, isPlace && at === path);
    }
  };
  for (const place of places) yield* visit(place, true);
  const folders = new Map<string, string>();
  for (const path of candidates) {
    const stats = yield* statExactly(path);
    // The root changes rarely, and macOS would report the changes of all that is in it.
    if (stats?.isDirectory() && dirname(path) !== path) folders.set(path, identityOf(stats));
  }
  return folders;
}

/** The target of the link at a path; undefined without a link, or without permission to see it. */
function* targetOf(path: string): Work<string | undefined> {
  try {
    const link = yield* linkAt(path);
    return link && resolve(dirname(path), link);
  } catch {
    return undefined;
  }
}

/** Identifies what downloads into these folders have received so far; it changes while they run. */
export function* downloadsIn(folders: Iterable<string>): Work<string> {
  let found = '';
  for (const folder of [...folders].flatMap((each) => [each, join(each, HUB_DOWNLOADS)])) {
    for (const name of yield* namesIn(folder)) {
      if (name.endsWith('.incomplete')) found += ` ${yield* stampOf(join(folder, name))}`;
    }
  }
  return found;
}

function* namesIn(folder: string): Work<string[]> {
  try {
    return (yield* listFolder(folder)).map(({ name }) => name);
  } catch {
    return [];
  }
}
