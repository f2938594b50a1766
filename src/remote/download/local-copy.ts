/**
 * Finds the repository and commit that a local copy came from: its snapshot in the Hub cache, the record of `download`,
 * or those of `hf download --local-dir`.
 */

import { basename, dirname, join, relative, sep } from 'node:path';
import { repositoryAround } from '../../file/cache/cache-layout.js';
import { listFolder, realPath, statAnything, statPath } from '../../platform/io/file-calls.js';
import { runAsync } from '../../work/work.js';
import {
  LOCAL_DIR_EXTENSION,
  LOCAL_DIR_RECORDS,
  localDirRecord,
  recordedOrigins,
} from './repository-record.js';

/** Where the files of a copy are on the Hub. */
export interface CopyOrigin {
  /** The repository's name in a cache; undefined where only the commit was recorded. */
  readonly cacheName: string | undefined;
  readonly commit: string;
  /** Path of the copied file or folder in the repository; empty for its root. */
  readonly path: string;
}

/** A local file or folder. */
export interface LocalCopy {
  readonly path: string;
  readonly isFolder: boolean;
  /** Length of a file in bytes. */
  readonly byteLength: number;
  /** The recorded origins; several only where `download` put more than one repository into the folder. */
  readonly origins: readonly CopyOrigin[];
}

/**
 * Finds a copy and its origins: records in its folder, or in one above it for a part of a copy.
 *
 * @throws Error Node's own `ENOENT` and the like
 */
export async function findCopy(path: string, signal: AbortSignal | undefined): Promise<LocalCopy> {
  const stats = await runAsync(statPath(path), signal);
  const copy = { path, isFolder: stats.isDirectory(), byteLength: stats.size };
  // A file in a snapshot is a link to its blob: only its folder shows the snapshot.
  const folder = await runAsync(realPath(copy.isFolder ? path : dirname(path)), signal);
  const place = copy.isFolder ? folder : join(folder, basename(path));
  const snapshot = snapshotOrigin(place);
  if (snapshot !== undefined) return { ...copy, origins: [snapshot] };
  for (let root = folder; ; root = dirname(root)) {
    const below = relative(root, place).split(sep).join('/');
    const origins = await originsIn(root, below, copy.isFolder, signal);
    if (origins.length > 0 || dirname(root) === root) return { ...copy, origins };
  }
}

/** The origin of a place in a snapshot of the Hub cache. */
function snapshotOrigin(place: string): CopyOrigin | undefined {
  const repository = repositoryAround(place);
  if (repository === undefined) return undefined;
  const [, commit = '', ...path] = relative(repository, place).split(sep);
  return { cacheName: basename(repository), commit, path: path.join('/') };
}

/** The origins that are recorded in a folder, for the file or folder `below` it. */
async function originsIn(
  root: string,
  below: string,
  isFolder: boolean,
  signal: AbortSignal | undefined,
): Promise<CopyOrigin[]> {
  const recorded = await recordedOrigins(root, isFolder ? undefined : below);
  if (recorded.length > 0) {
    return recorded.map(({ cacheName, commit, path }) => {
      return { cacheName, commit, path: [path, below].filter(Boolean).join('/') };
    });
  }
  const commit = isFolder
    ? await newestCommit(root, below, signal)
    : (await localDirRecord(root, below))?.commit;
  return commit === undefined ? [] : [{ cacheName: undefined, commit, path: below }];
}

/** The commit of the last record that `hf download` wrote for files in a folder. */
async function newestCommit(
  root: string,
  below: string,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const records = join(root, LOCAL_DIR_RECORDS);
  if ((await runAsync(statAnything(join(records, below)), signal))?.isDirectory() !== true) {
    return undefined;
  }
  let newest: Awaited<ReturnType<typeof localDirRecord>>;
  const folders = [below];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for (const { name, isFolder } of await runAsync(listFolder(join(records, folder)), signal)) {
      const path = [folder, name].filter(Boolean).join('/');
      if (isFolder) folders.push(path);
      if (isFolder || !name.endsWith(LOCAL_DIR_EXTENSION)) continue;
      const record = await localDirRecord(root, path.slice(0, -LOCAL_DIR_EXTENSION.length));
      if (record !== undefined && !(record.seconds <= (newest?.seconds ?? 0))) newest = record;
    }
  }
  return newest?.commit;
}
