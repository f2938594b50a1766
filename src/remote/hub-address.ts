/** Addresses on the Hub: parses pages copied from a browser, makes URLs of files and lists. */

import { argumentRangeError } from '../errors/arguments.js';
import {
  FILE_NAME,
  type HubId,
  isRepositoryName,
  kindObjection,
  takeKind,
} from '../file/hub/ids.js';
import { DEFAULT_ENDPOINT } from '../file/hub/settings.js';
import { pathError } from '../file/shards/shard-paths.js';

/** The short name of the Hub in links. */
const SHORT_HOST = 'https://hf.co';

/** Parts of an address that mark a folder, and parts that mark a file. */
const FOLDER_PAGES: readonly string[] = ['tree'];
const FILE_PAGES: readonly string[] = ['blob', 'resolve', 'raw', 'blame'];

/** Refs that contain slashes, plain or encoded in addresses. */
const HUB_REF = /^refs\/(?:pr|convert)\/[^/]+$/;

/** The meaning of an address. */
export interface HubAddress {
  /** URL of the Hub, without a slash at the end. */
  readonly endpoint: string;
  readonly id: HubId;
  /** Whether the path of `id` belongs to a file, regardless of its name. */
  readonly isFile: boolean;
}

/** Encodes every part of a path. */
export function encodePath(path: string): string {
  return path.split('/').map(encodeURIComponent).join('/');
}

/** The path below the endpoint; undefined for other URLs. */
function pathBelow(url: URL, endpoint: string): string | undefined {
  const { origin, pathname } = new URL(endpoint);
  const folder = pathname.endsWith('/') ? pathname : `${pathname}/`;
  if (url.origin !== origin || !`${url.pathname}/`.startsWith(folder)) return undefined;
  return url.pathname.slice(folder.length);
}

/**
 * The meaning of a URL of the Hub or of `endpoint`: of a repository, a folder or a file. Ignores query and fragment.
 * Null for other hosts, for addresses below `/api/`, and for other files of a mirror.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for other pages, such as discussions
 */
export function parseHubUrl(url: URL, endpoint: string): HubAddress | null {
  const hubs = [endpoint, DEFAULT_ENDPOINT, SHORT_HOST];
  const found = hubs.find((hub) => pathBelow(url, hub) !== undefined);
  if (found === undefined) return null;
  const parts = decodedParts(pathBelow(url, found) ?? '');
  if (parts[0] === 'api' || parts[0] === 'resolve-cache') return null;
  const objection = kindObjection(parts[0]);
  if (objection !== undefined) {
    if (FILE_NAME.test(url.pathname)) return null;
    refuse(url.pathname, `the address ${objection}`);
  }
  const kind = takeKind(parts);
  // The oldest models have no organisation.
  const pages = [...FOLDER_PAGES, ...FILE_PAGES];
  const isBare = parts.length === 1 || pages.includes(parts[1] ?? '');
  const name = parts.splice(0, isBare ? 1 : 2);
  const page = parts.shift();
  const isKnown = page === undefined ? parts.length === 0 : pages.includes(page);
  const [revision, path] = splitRevision(parts);
  if ((page === undefined || !isKnown) && FILE_NAME.test(url.pathname)) return null;
  if (!isRepositoryName(name) || !isKnown || [revision, path].some(isObjectionable))
    refuse(url.pathname);
  if (page !== undefined && revision === undefined)
    refuse(url.pathname, `the address with a branch, tag or commit after \`${page}\``);
  const id = { cacheName: [kind, ...name].join('--'), revision, path: path ?? '' };
  const isFile = FILE_PAGES.includes(page ?? '') && path !== undefined;
  return { endpoint: found === SHORT_HOST ? DEFAULT_ENDPOINT : found, id, isFile };
}

/** Leaves out the query, which may have secrets. */
function refuse(
  pathname: string,
  expected = 'the address of a model, a folder or a file on the Hub',
): never {
  throw argumentRangeError('source', expected, pathname);
}

/** The parts of a path, without an empty last part. */
function decodedParts(path: string): string[] {
  try {
    return path.replace(/\/$/, '').split('/').map(decodeURIComponent);
  } catch {
    return refuse(path);
  }
}

function splitRevision(parts: readonly string[]): [string | undefined, string | undefined] {
  const length = HUB_REF.test(parts.slice(0, 3).join('/')) ? 3 : 1;
  const revision = parts.slice(0, length).join('/');
  const path = parts.slice(length).join('/');
  return [revision || undefined, path || undefined];
}

function isObjectionable(text: string | undefined): boolean {
  return text !== undefined && pathError(text) !== null;
}

/** The repository's kind, and its path below the endpoint: models have no prefix there. */
function repositoryOf({ cacheName }: HubId): { kind: string; path: string } {
  const [kind = '', ...name] = cacheName.split('--');
  return { kind, path: `${kind === 'models' ? '' : `${kind}/`}${name.join('/')}` };
}

/** URL of the bytes of a file. */
export function fileUrl(endpoint: string, id: HubId, revision: string, path: string): URL {
  const { path: repository } = repositoryOf(id);
  return new URL(
    `${endpoint}/${repository}/resolve/${encodeURIComponent(revision)}/${encodePath(path)}`,
  );
}

/** URL of the page of a folder. */
export function pageUrl(endpoint: string, id: HubId, revision: string, folder: string): URL {
  const { path: repository } = repositoryOf(id);
  const below = folder === '' ? '' : `/${encodePath(folder)}`;
  return new URL(`${endpoint}/${repository}/tree/${encodeURIComponent(revision)}${below}`);
}

/** The kinds of answers of the Hub's API. */
export type HubQuestion = 'revision' | 'tree';

/**
 * URL of the Hub's API about a revision: facts such as its commit (`revision`), or the files and folders in the
 * folder `path` (`tree`).
 */
export function apiUrl(
  endpoint: string,
  id: HubId,
  question: HubQuestion,
  revision: string,
  path: string = '',
): URL {
  const { kind, path: repository } = repositoryOf(id);
  const parts = [kind === 'models' ? 'models/' : '', repository, '/', question, '/'];
  const below = path === '' ? '' : `/${encodePath(path)}`;
  return new URL(`${endpoint}/api/${parts.join('')}${encodeURIComponent(revision)}${below}`);
}
