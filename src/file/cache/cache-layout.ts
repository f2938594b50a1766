/**
 * Where the Hub cache keeps what, and where the bytes of a file are: in the blobs of its repository, or in a store that
 * all repositories share. Links lead from a snapshot to a blob, and from a blob perhaps on to the store.
 *
 * ```
 * blobs/.huggingface-shared-blobs       marks this folder as the store, and of which layout
 * blobs/ab/ab01…                        an entry of the store, by a hash that only its chunks can show
 * models--org--name/blobs/<etag>        the bytes of a file, by their hash; or a link to an entry
 * models--org--name/snapshots/<commit>  links to the blobs, by the names of the files
 * models--org--name/refs/<revision>     the commit that a branch or tag was when it was downloaded
 * ```
 */

import { basename, dirname, isAbsolute, join, resolve, sep } from 'node:path';
import {
  linkAt,
  MAX_LINKS,
  NOTHING_THERE,
  realPath,
  statLink,
} from '../../platform/io/file-calls.js';
import { readText } from '../../platform/io/small-files.js';
import { hasCode } from '../../platform/io/system-errors.js';
import type { Work } from '../../work/work.js';
import { isRepositoryFolder } from '../hub/ids.js';

const BLOBS = 'blobs';
const SNAPSHOTS = 'snapshots';

/** The marker of a store, and the texts of the known layouts. */
const STORE_MARKER = '.huggingface-shared-blobs';
/** Python writes it as text: on Windows with both characters that end a line there. */
const STORE_LAYOUT = /^1\r?\n$/;
const MAX_MARKER_BYTE_LENGTH = 3;

/** The folder of an entry is named after the first digits of the entry. */
const STORE_ENTRY = /^([\da-f]{2})[/\\]\1[\da-f]{62}$/;

/** A SHA-256 in hexadecimal digits. */
export const SHA256: RegExp = /^[\da-f]{64}$/;

/** The places of a repository's bytes. */
interface RepositoryBlobs {
  /** Its own blobs. */
  readonly folder: string;
  /** The store next to the repository, if any. */
  readonly store: string | undefined;
}

/** The folder of a repository's blobs. */
export function blobsFolder(repository: string): string {
  return join(repository, BLOBS);
}

/** The folder of a commit's files. */
export function snapshotFolder(repository: string, commit: string): string {
  return join(repository, SNAPSHOTS, commit);
}

/** The file with the commit of a branch or tag. */
export function refPath(repository: string, revision: string): string {
  return join(repository, 'refs', revision);
}

/** Whether a real path is below a folder. */
export function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** Returns the repository of a snapshot, by a real path in it; undefined outside of snapshots. */
export function repositoryAround(path: string): string | undefined {
  for (let at = path; dirname(at) !== at; at = dirname(at)) {
    const repository = dirname(dirname(at));
    if (basename(dirname(at)) === SNAPSHOTS && isRepositoryFolder(basename(repository))) {
      return repository;
    }
  }
  return undefined;
}

/** Returns the blobs of a repository, given by its real path. */
export function* blobsOf(repository: string): Work<RepositoryBlobs> {
  const store = join(dirname(repository), BLOBS);
  return { folder: blobsFolder(repository), store: (yield* isStore(store)) ? store : undefined };
}

/** Neither the folder nor its marker may be a link: the Hub's store has none. */
function* isStore(folder: string): Work<boolean> {
  const marker = join(folder, STORE_MARKER);
  try {
    if ((yield* statLink(folder))?.isDirectory() !== true) return false;
    const stats = yield* statLink(marker);
    if (stats?.isFile() !== true || stats.size > MAX_MARKER_BYTE_LENGTH) return false;
    return STORE_LAYOUT.test(yield* readText(marker));
  } catch {
    // An unreadable folder does not count as a store: repositories that do not use it must still open.
    return false;
  }
}

/**
 * Whether the links at `path` lead to bytes of a repository: to one of its blobs, or by way of one to the
 * store. A link straight into the store, or to another repository, does not. `real` is `path` without links.
 */
export function* leadsToBlob(
  path: string,
  real: string,
  { folder, store }: RepositoryBlobs,
): Work<boolean> {
  if (isBelow(real, folder)) return true;
  if (store === undefined || !isBelow(real, store)) return false;
  if (!STORE_ENTRY.test(real.slice(store.length + 1))) return false;
  const blob = yield* blobOn(path);
  if (blob === undefined || dirname(blob) !== folder) return false;
  const link = yield* linkAt(blob);
  // Python has just replaced the link by a file, or is about to.
  if (link === undefined) return true;
  // An entry must be a file, not another link.
  return (yield* statLink(resolve(folder, link)))?.isSymbolicLink() !== true;
}

/** Follows the links at a path to the first blob of any repository; undefined without one. */
function* blobOn(path: string): Work<string | undefined> {
  let at = path;
  for (let links = 0; links <= MAX_LINKS; links++) {
    const place = join(yield* realPath(dirname(at)), basename(at));
    if (isBlobPath(place)) return place;
    const link = yield* linkAt(place);
    if (link === undefined) return undefined;
    // Not joined, because only the system resolves `..` after a link.
    at = isAbsolute(link) ? link : dirname(place) + sep + link;
  }
  return undefined;
}

/** Whether a path is that of a blob in a repository. Upper case counts: to many file systems it is the same. */
export function isBlobPath(path: string): boolean {
  const [repository, blobs] = path.toLowerCase().split(sep).slice(-3);
  return blobs === BLOBS && isRepositoryFolder(repository ?? '');
}

/**
 * Where a marker would be if the path was in a store. Anything of this name says that the folder is the
 * Hub's and not to be written, in whatever layout.
 */
export function markersAbove(path: string): string[] {
  const parts = path.split(sep);
  return parts.flatMap((part, i) => {
    const isBlobs = part.toLowerCase() === BLOBS && i < parts.length - 1;
    return isBlobs ? [[...parts.slice(0, i + 1), STORE_MARKER].join(sep)] : [];
  });
}

/**
 * Returns the SHA-256 of a file in the cache: the name of the first blob that its links lead to. Null outside of the
 * cache, and for small files, whose blobs have git's hash as names.
 */
export function* cachedSha256(path: string): Work<string | null> {
  const name = basename((yield* blobOn(path)) ?? '');
  return SHA256.test(name) ? name : null;
}

/**
 * Returns the length of the file at a path of a repository; undefined without a file, or when links lead out of the
 * repository.
 */
export function* ownByteLength(path: string, repository: string): Work<number | undefined> {
  try {
    const [root, real] = [yield* realPath(repository), yield* realPath(path)];
    if (!isBelow(real, root) && !(yield* leadsToBlob(path, real, yield* blobsOf(root)))) {
      return undefined;
    }
    const stats = yield* statLink(real);
    return stats?.isFile() ? stats.size : undefined;
  } catch (error) {
    if (hasCode(error, [...NOTHING_THERE, 'ELOOP'])) return undefined;
    throw error;
  }
}
