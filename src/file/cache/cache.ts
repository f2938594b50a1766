/** Finds downloaded repositories in the Hub cache on this machine. Never uses the network. */

import { homedir } from 'node:os';
import { dirname, join, sep } from 'node:path';
import { reportsAbsence } from '../../errors/absence.js';
import { SafetensorsError } from '../../errors/errors.js';
import { exists, realPath, statAnything, statPath } from '../../platform/io/file-calls.js';
import { readText } from '../../platform/io/small-files.js';
import { withAdvice } from '../../platform/io/system-errors.js';
import type { Work } from '../../work/work.js';
import {
  formatHubDownload,
  type HubId,
  isCommit,
  ownDownloadCommand,
  revisionOf,
  URL_PATTERN,
} from '../hub/ids.js';
import { blobsOf, isBelow, leadsToBlob, refPath, snapshotFolder } from './cache-layout.js';
import { type Environment, offlineVariable } from './variables.js';

/** An id and the revision that is looked for. */
type NamedRevision = HubId & { readonly revision: string };

/** A ref file holds one commit; a longer file is not a ref. */
const MAX_REF_BYTE_LENGTH = 1024;

/** Expands `~` and `$VARIABLES` as Python does, but not `~user`; unset variables stay as they are. */
export function expand(path: string, environment: Environment): string {
  const absolute = /^~(?=$|[/\\])/.test(path) ? homeOf(environment) + path.slice(1) : path;
  // An environment inherits from Object: `toString` is not a variable.
  const lookUp = (reference: string, name: string): string =>
    (Object.hasOwn(environment, name) ? environment[name] : undefined) ?? reference;
  const expanded = absolute.replace(/\$(?:(\w+)|\{([^}]*)\})/g, (reference, bare, braced) =>
    lookUp(reference, bare ?? braced),
  );
  return sep === '\\' ? expanded.replace(/%([^%]+)%/g, lookUp) : expanded;
}

function homeOf(environment: Environment): string {
  return environment[sep === '\\' ? 'USERPROFILE' : 'HOME'] || homedir();
}

/** The folder of the Hub's tools: `HF_HOME`, else `huggingface` in `XDG_CACHE_HOME`, else in `~/.cache`. */
export function hubHomeFolder(environment: Environment): string {
  const { HF_HOME, XDG_CACHE_HOME } = environment;
  const root = XDG_CACHE_HOME || join(homeOf(environment), '.cache');
  return expand(HF_HOME || join(root, 'huggingface'), environment);
}

/**
 * The folder of the cache. As in the Python library, these variables are tried in this order:
 * `HF_HUB_CACHE`, `HUGGINGFACE_HUB_CACHE`, `HF_HOME`, `XDG_CACHE_HOME`; then `~/.cache`. An empty
 * variable counts as unset.
 */
export function hubCacheFolder(environment: Environment = process.env): string {
  const { HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE } = environment;
  const cache = HF_HUB_CACHE || HUGGINGFACE_HUB_CACHE;
  if (cache) return expand(cache, environment);
  return join(hubHomeFolder(environment), 'hub');
}

function repositoryOf({ cacheName }: HubId): string {
  return join(hubCacheFolder(), cacheName);
}

/** The folders in which a new version of a cached repository appears: of refs, snapshots and bytes. */
export function foldersOfVersions(id: HubId, revision?: string): string[] {
  const ref = join('refs', revisionOf(id, revision) ?? 'main');
  return [dirname(ref), 'snapshots', 'blobs'].map((name) => join(repositoryOf(id), name));
}

/** Whether a repository is in the cache, with this revision or another. */
export function* isCached(id: HubId): Work<boolean> {
  return yield* exists(repositoryOf(id));
}

/** A downloaded revision of a repository. */
export interface Snapshot {
  readonly id: NamedRevision;
  /** The id as the caller gave it. */
  readonly label: string;
  /** The folder of the repository in the cache. */
  readonly repository: string;
  readonly commit: string;
  /** The folder with the files of the revision. */
  readonly folder: string;
}

/**
 * Returns the snapshot's folder, or the file or folder in it that the id names. `label` is the id as the
 * caller gave it. The revision is that of the id or the option `revision`, `main` without both.
 *
 * @throws As {@link findSnapshot} and {@link findInSnapshot}
 */
export function* findInHubCache(id: HubId, label: string, revision?: string): Work<string> {
  const snapshot = yield* findSnapshot(id, label, revision);
  return id.path === '' ? snapshot.folder : yield* findInSnapshot(snapshot, id.path);
}

/**
 * Finds the snapshot of the id's revision, as {@link findInHubCache}.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_IN_CACHE`, with the missing path
 * @throws Error Node's own `ENOENT` for a name, not an address, of which nothing is in the cache
 * @throws RangeError `ERR_OUT_OF_RANGE` for a revision that is not a name, and for two that differ
 */
export function* findSnapshot(id: HubId, label: string, revision?: string): Work<Snapshot> {
  const wanted = revisionOf(id, revision) ?? 'main';
  const named = { ...id, revision: wanted };
  const repository = repositoryOf(id);
  if (!URL_PATTERN.test(label) && !(yield* isCached(id))) yield* failAtPath(named, label);
  const commit = isCommit(wanted) ? wanted : yield* readRef(repository, named, label);
  const folder = snapshotFolder(repository, commit);
  if (!(yield* exists(folder))) {
    fail(named, label, `expected revision ${wanted} in the Hub cache, found no folder ${folder}`);
  }
  return { id: named, label, repository, commit, folder };
}

/**
 * Returns the path of a file or folder in a snapshot.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_IN_CACHE` for a missing path, and for a link out of the cache
 */
export function* findInSnapshot(snapshot: Snapshot, relative: string): Work<string> {
  const { id, label, repository, commit, folder } = snapshot;
  const path = join(folder, relative);
  if (!(yield* exists(path))) {
    const note = (yield* exists(join(repository, '.no_exist', commit, relative)))
      ? '; according to the cache the repository has no such file'
      : '';
    fail(
      id,
      label,
      `expected ${relative} of revision ${id.revision} in the Hub cache, found no ${path}${note}`,
    );
  }
  const [root, real] = [yield* realPath(repository), yield* realPath(path)];
  if (!isBelow(real, root) && !(yield* leadsToBlob(path, real, yield* blobsOf(root)))) {
    fail(id, label, `expected a file in the Hub cache, found a link out of it at ${path}`);
  }
  return path;
}

/** Throws Node's own error: most likely a mistyped path, so the message leaves out the layout of the cache. */
function* failAtPath(named: NamedRevision, label: string): Work<void> {
  try {
    yield* statPath(label);
  } catch (error) {
    const advice = `no repository of that name is in the Hub cache ${hubCacheFolder()} either; check the path`;
    const more = isLikeHubId(label) ? `; if it is a repository, ${fetchAdvice(named)}` : '';
    throw withAdvice(error as NodeJS.ErrnoException, advice + more);
  }
}

function* readRef(repository: string, named: NamedRevision, label: string): Work<string> {
  const { revision } = named;
  const path = refPath(repository, revision);
  const stats = yield* statAnything(path);
  if (stats === undefined || !stats.isFile()) {
    fail(named, label, `expected revision ${revision} in the Hub cache, found no ${path}`);
  }
  const commit = stats.size > MAX_REF_BYTE_LENGTH ? '' : (yield* readText(path)).trim();
  if (!isCommit(commit)) {
    fail(named, label, `expected the hash of a commit in ${path}, found none`);
  }
  return commit;
}

/** Whether a text is more likely `org/name` than the path of a file or folder. */
function isLikeHubId(label: string): boolean {
  return label.includes('/') && !/\.(?:bin|ckpt|gguf|json|np[yz]|pkl|pth?)$/i.test(label);
}

/** Returns the error for a checkpoint that should be in the cache. */
export function notInCache(
  id: HubId,
  label: string,
  message: string,
  cause?: unknown,
): SafetensorsError {
  const context = { path: label, cause };
  const advised = `${message}; ${fetchAdvice(id)}`;
  const error = new SafetensorsError('SAFETENSORS_NOT_IN_CACHE', advised, context);
  return reportsAbsence(error, 'cache');
}

function fetchAdvice(id: HubId): string {
  const variable = offlineVariable();
  const first =
    variable === undefined ? '' : `; unset ${variable} first, which forbids requests to the Hub`;
  return `\`${formatHubDownload(id)}\` fetches it${ownDownloadCommand(id)}${first}`;
}

function fail(id: HubId, label: string, message: string): never {
  throw notInCache(id, label, message);
}
