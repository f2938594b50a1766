/**
 * Ids of repositories on the Hub: `name`, `org/name`, `org/name@revision`,
 * `hf://org/name@revision/path`, `hf://datasets/org/name`; and the names of their folders in a cache.
 */

import { argumentRangeError, requireString } from '../../errors/arguments.js';
import { quoteName } from '../../errors/errors.js';
import { pathError } from '../shards/shard-paths.js';

/** A parsed id. */
export interface HubId {
  /** Name of the repository's folder in a cache, such as `models--org--name`. */
  readonly cacheName: string;
  /** Branch, tag, ref or commit; undefined if the id names no revision. */
  readonly revision: string | undefined;
  /** Path of a file or folder in the repository; empty for all of it. */
  readonly path: string;
}

const COMMIT = /^[0-9a-f]{40}$/;

const HUB_SCHEME = 'hf://';

/** The start of a URL. A scheme has at least two letters: a single one is a drive of Windows. */
export const URL_PATTERN: RegExp = /^[a-z][a-z\d+.-]+:/i;

/** Kinds of repositories. */
const REPOSITORY_KINDS: readonly string[] = ['models', 'datasets', 'spaces', 'kernels'];
/** What addresses of the Hub begin with that are not read, and what is expected in their place. */
const UNSUPPORTED_KINDS: Readonly<Record<string, string>> = {
  kernels: 'of a model, a dataset or a space, since kernels are programs, without weights',
  buckets: 'of a model, a dataset or a space; pass the URLs of single files of a bucket',
};
/** Kinds as the Hub's API spells them elsewhere, which no id begins with. */
const SINGULAR_KIND = /^(?:model|dataset|space)$/;
/** Letters, digits, `-`, `_`, `.`; neither `--` nor `..`; `-` and `.` at neither end. */
const NAME = /^(?!.*(?:--|\.\.))\w(?:[\w.-]*\w)?$/;
/**
 * The name of a file, not of a repository: where such a file is missing, that is what its error must say. With `hf://`
 * any name is an id.
 */
export const FILE_NAME: RegExp = /\.(?:safetensors|json)$/;
/** The Hub's own limit. */
const MAX_ID_LENGTH = 96;
/** Refs of the Hub that contain slashes. */
const REF_AND_PATH = /^(refs\/(?:pr|convert)\/[^/]+)(?:\/(.*))?$/s;

/** Whether these can be organisation and name of a repository, or its name alone. */
export function isRepositoryName(parts: readonly string[]): boolean {
  return parts.every((part) => NAME.test(part)) && parts.join('/').length <= MAX_ID_LENGTH;
}

/** Whether a text is the full hash of a commit. */
export function isCommit(text: string): boolean {
  return COMMIT.test(text);
}

/** Whether a folder has the name of a repository in a cache, such as `models--org--name`. */
export function isRepositoryFolder(name: string): boolean {
  return REPOSITORY_KINDS.some(
    (kind) => name.startsWith(`${kind}--`) && name.length > kind.length + 2,
  );
}

/** Removes the kind from the parts of an id or a page, and returns it: `models` by default. */
export function takeKind(parts: string[]): string {
  return REPOSITORY_KINDS.includes(parts[0] ?? '') ? (parts.shift() as string) : 'models';
}

/** The objection to the first part of an address on the Hub, as what is expected; undefined without one. */
export function kindObjection(first: string | undefined): string | undefined {
  return first !== undefined && Object.hasOwn(UNSUPPORTED_KINDS, first)
    ? UNSUPPORTED_KINDS[first]
    : undefined;
}

/** Whether the scheme of a text says that it is an id, not a path. */
export function isHubUri(text: string): boolean {
  return text.startsWith(HUB_SCHEME);
}

/**
 * Parses an id; null for any other text, such as a longer path or the name of a file. Errors call it
 * `argument`.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for an `hf://` id that is malformed, would leave its folder, has an empty
 *   revision, or names a bucket; a kernel as `source`
 */
export function parseHubId(
  text: string,
  argument: 'path' | 'source' | 'against' = 'path',
): HubId | null {
  if (isHubUri(text)) return parseUri(text, argument);
  if (FILE_NAME.test(text)) return null;
  const at = text.indexOf('@');
  const parts = (at === -1 ? text : text.slice(0, at)).split('/');
  if (parts.length > 2 || !isRepositoryName(parts)) return null;
  const revision = at === -1 ? undefined : text.slice(at + 1);
  if (revision !== undefined && pathError(revision) !== null) return null;
  return { cacheName: `models--${parts.join('--')}`, revision, path: '' };
}

function parseUri(text: string, argument: string): HubId {
  const refuse = (
    expected = 'hf://org/name[@revision][/path], with the name of the organisation',
  ): never => {
    throw argumentRangeError(argument, expected, text);
  };
  // A part with a lone surrogate cannot be in a URL.
  if (!text.isWellFormed()) refuse();
  const parts = text.slice(HUB_SCHEME.length).split('/');
  const [first = ''] = parts;
  const objection = kindObjection(first);
  // A cache may have kernels.
  const isRead = first === 'kernels' && argument === 'path';
  if (objection !== undefined && !isRead) refuse(`an id ${objection}`);
  if (SINGULAR_KIND.test(first)) refuse(`hf://${first}s/org/name[@revision][/path]`);
  const kind = takeKind(parts);
  const [organisation = '', named = '', ...rest] = parts;
  const at = named.indexOf('@');
  const name = at === -1 ? named : named.slice(0, at);
  if (!isRepositoryName([organisation, name])) refuse();
  const cacheName = `${kind}--${organisation}--${name}`;
  let revision: string | undefined;
  let path = rest.join('/');
  if (at !== -1) {
    const tail = [named.slice(at + 1), ...rest].join('/');
    const [, ref, below = ''] = REF_AND_PATH.exec(tail) ?? [];
    const slash = ref === undefined ? `${tail}/`.indexOf('/') : ref.length;
    try {
      revision = decodeURIComponent(tail.slice(0, slash));
    } catch {
      refuse();
    }
    path = ref === undefined ? tail.slice(slash + 1) : below;
  }
  if (path !== '' && pathError(path) !== null) refuse();
  if (revision !== undefined) requireRevision(revision);
  return { cacheName, revision, path };
}

/**
 * The `hf://` id of a file or folder, given by its path below that of `id`; undefined when the repository
 * has no organisation, without which there are no such ids.
 */
export function hubUri({ cacheName, revision, path }: HubId, relative: string): string | undefined {
  const [kind = '', organisation, name] = cacheName.split('--');
  if (name === undefined) return undefined;
  const repository = `${kind === 'models' ? '' : `${kind}/`}${organisation}/${name}`;
  const at = revision === undefined ? '' : `@${encodeURIComponent(revision)}`;
  return HUB_SCHEME + [repository + at, path, relative].filter(Boolean).join('/');
}

/** The command that fetches a repository into the cache, such as `hf download org/name`. */
export function formatHubDownload({ cacheName, revision }: HubId): string {
  const [kinds = '', ...name] = cacheName.split('--');
  const type = kinds === 'models' ? '' : ` --repo-type ${kinds.replace(/s$/, '')}`;
  const isDefault = revision === undefined || revision === 'main';
  const options = `${type}${isDefault ? '' : ` --revision ${revision}`}`;
  return `hf download ${name.join('/')}${options}`;
}

/** The same by this package's command, to follow the other one; empty for a repository that has no `hf://` id. */
export function ownDownloadCommand(id: HubId): string {
  const revision = id.revision === 'main' ? undefined : id.revision;
  const uri = hubUri({ ...id, revision }, '');
  if (uri === undefined) return '';
  return `, as does \`npx safetensors-mmap download ${uri} cache\``;
}

/** The error for the option `revision` of something that has only one version. */
export function noRevision(what: string, revision: string): RangeError {
  requireString('revision', revision);
  return argumentRangeError('revision', `left out for ${what}, which has one version`, revision);
}

/** Throws a RangeError for a revision that cannot name a branch, tag, ref or commit. */
export function requireRevision(revision: string): void {
  // A path would lose the part.
  const hasDot = revision.split('/').includes('.');
  if (pathError(revision) === null && !hasDot) return;
  throw argumentRangeError('revision', 'the name of a branch, tag, ref or commit', revision);
}

/**
 * Returns the revision that an id and the option `revision` name together; undefined when neither does.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for a text that cannot name a revision, and for an option that differs from
 *   the id's revision
 */
export function revisionOf(
  { revision }: Pick<HubId, 'revision'>,
  option: string | undefined,
): string | undefined {
  if (option !== undefined) requireString('revision', option);
  const wanted = option ?? revision;
  if (wanted !== undefined) requireRevision(wanted);
  if (revision === undefined || revision === wanted) return wanted;
  throw argumentRangeError('revision', `${quoteName(revision)}, as in the id, or left out`, option);
}
