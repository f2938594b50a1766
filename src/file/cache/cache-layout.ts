/**
 * Where the Hub's cache has the bytes of its files: in the blobs of each repository, or in a store that all
 * repositories share. Links lead from a snapshot to a blob, and from a blob perhaps on to the store.
 *
 * ```
 * blobs/.huggingface-shared-blobs       says that this folder is the store, and of which layout
 * blobs/ab/ab01…                        an entry of the store, by a hash that only its chunks can show
 * models--org--name/blobs/<etag>        the bytes of a file, by their hash; or a link to an entry
 * models--org--name/snapshots/<commit>  links to the blobs, by the names of the files
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
import { runSync, type Steps } from '../../platform/io/steps.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { isRepositoryFolder } from '../hub/ids.js';

const BLOBS = 'blobs';

/** A store has this file, and only the text of a layout that is known here. */
const STORE_MARKER = '.huggingface-shared-blobs';
/** Python writes it as text: on Windows with both characters that end a line there. */
const STORE_LAYOUT = /^1\r?\n$/;
const MAX_MARKER_BYTE_LENGTH = 3;

/** The folder of an entry is named after the first digits of the entry. */
const STORE_ENTRY = /^([\da-f]{2})[/\\]\1[\da-f]{62}$/;

/** A SHA-256 in hexadecimal digits. */
export const SHA256: RegExp = /^[\da-f]{64}$/;

/** Where the bytes of a repository's files are. */
export interface RepositoryBlobs {
  /** Its own blobs. */
  readonly folder: string;
  /** The store beside the repository; undefined when there is none. */
  readonly store: string | undefined;
}

/** Whether a path without links is below a folder. */
export function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}

/** The repository of a snapshot, by a path without links in it; undefined outside of snapshots. */
export function repositoryAround(path: string): string | undefined {
  for (let at = path; dirname(at) !== at; at = dirname(at)) {
    const repository = dirname(dirname(at));
    if (basename(dirname(at)) === 'snapshots' && isRepositoryFolder(basename(repository))) {
      return repository;
    }
  }
  return undefined;
}

/** The blobs of a repository, which is given by its path without links. */
export function* blobsOf(repository: string): Steps<RepositoryBlobs> {
  const store = join(dirname(repository), BLOBS);
  return { folder: join(repository, BLOBS), store: (yield* isStore(store)) ? store : undefined };
}

/** Neither the folder nor its marker may be a link: the store is not the Hub's then. */
function* isStore(folder: string): Steps<boolean> {
  const marker = join(folder, STORE_MARKER);
  try {
    if ((yield* statLink(folder))?.isDirectory() !== true) return false;
    const stats = yield* statLink(marker);
    if (stats?.isFile() !== true || stats.size > MAX_MARKER_BYTE_LENGTH) return false;
    return STORE_LAYOUT.test(yield* readText(marker));
  } catch {
    // What cannot be read is no store. A repository that does not use it must not suffer.
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
): Steps<boolean> {
  if (isBelow(real, folder)) return true;
  if (store === undefined || !isBelow(real, store)) return false;
  if (!STORE_ENTRY.test(real.slice(store.length + 1))) return false;
  const blob = yield* blobOn(path);
  if (blob === undefined || dirname(blob) !== folder) return false;
  const link = yield* linkAt(blob);
  // Python has just put a file in the place of the link, or is about to.
  if (link === undefined) return true;
  // An entry must be a file, not another link.
  return (yield* statLink(resolve(folder, link)))?.isSymbolicLink() !== true;
}

/** The first blob of any repository on the way along the links at a path; undefined for none. */
function* blobOn(path: string): Steps<string | undefined> {
  let at = path;
  for (let links = 0; links <= MAX_LINKS; links++) {
    const place = join(yield* realPath(dirname(at)), basename(at));
    if (isBlobPath(place)) return place;
    const link = yield* linkAt(place);
    if (link === undefined) return undefined;
    // Not joined: what `..` means behind a link, the system knows.
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
 * The SHA-256 by which the cache knows a file: the name of the first blob to which its links lead. Null
 * outside of the cache, and for small files, which are known by git's hash.
 */
export function cachedSha256(path: string): string | null {
  const name = basename(runSync(blobOn(path)) ?? '');
  return SHA256.test(name) ? name : null;
}

/**
 * The length of the file at a path of a repository; undefined when there is none, or when links lead to
 * bytes that are not the repository's.
 */
export function* ownByteLength(path: string, repository: string): Steps<number | undefined> {
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
