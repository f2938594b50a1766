/** The files of a source: a file, an index with its shards, or a listed folder of a repository. */

import { reportsAbsence } from '../../errors/absence.js';
import { FormatError, quoteName, RemoteError } from '../../errors/errors.js';
import { readFileHeader } from '../../file/read-header.js';

import { DEFAULT_MAX_INDEX_BYTE_LENGTH } from '../../file/shards/checkpoint-index.js';
import { indexesAmong, noVariant } from '../../file/shards/file-choice.js';
import type { NoModel, PartialModel } from '../../file/shards/model-choice.js';
import { pathError, requireInside, SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { HEAD_BYTE_LENGTH } from '../../header/foreign-formats.js';
import { runAsync } from '../../work/work.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import type { NoRemoteModel } from '../found-file.js';
import type { HttpFile } from '../http-file.js';
import type { HubAddress } from '../hub-address.js';
import { HubRepository, type RepositoryEntry } from '../hub-repository.js';
import { type Names, noModelIn } from '../hub-source.js';
import { FIRST_BYTE_LENGTH } from '../read-header.js';
import type { FileStart } from '../remote-file.js';
import { shownUrl } from '../safe-urls.js';
import type { Session } from '../session.js';
import { type SourceChoice, type SourceSession, urlSource } from '../source.js';
import type { DownloadItem } from './download-item.js';
import { receiveFile } from './receive.js';
import { versionOf } from './version-id.js';

/** The Hub serves larger files of its Xet storage only through its own protocol. */
const MAX_XET_BYTE_LENGTH = 50_000_000_000;

/** Requests about files at a time. The Hub has refused some of more. */
export const QUESTIONS_AT_ONCE = 16;

/** A whole file of the source. */
export interface SourceFile extends DownloadItem {
  readonly file: HttpFile;
  /** Whether the file as a whole needs the Hub's Xet protocol. */
  readonly isXetOnly: boolean;
  /** Its first bytes; null if a hash identifies it. */
  readonly start: Uint8Array | null;
}

/** The files of a source. */
export interface SourceFiles {
  /** For messages: without credentials, query and fragment. */
  readonly path: string;
  /** The file, or the index, that the source names; null for a folder. */
  readonly name: string | null;
  /** The error of a server without the Hub's API: then only files are found whose names are known. */
  readonly unlisted?: RemoteError | undefined;
  /** The caller's choice among the models of a folder. */
  readonly variant: string | undefined;
  /** The direct entries of the folder; null without a list. */
  readonly entries: readonly RepositoryEntry[] | null;
  /**
   * The files in the folder and in all folders below it, which are then found without a request; null without a list.
   *
   * @throws RemoteError
   */
  listAll(signal: AbortSignal): Promise<readonly RepositoryEntry[] | null>;
  /** The place on the Hub; null for other sources. */
  readonly hub: {
    readonly address: HubAddress;
    readonly commit: string;
    /** Path of the folder in the repository, with a slash at its end; empty for all of it. */
    readonly prefix: string;
    /** As of `Repository`. */
    hasCommit(commit: string, signal: AbortSignal): Promise<boolean>;
  } | null;
  /** Returns a folder without a model, which may be a pipeline; undefined for a source without a list. */
  noModel?(names: Names, none: PartialModel | NoModel, signal: AbortSignal): Promise<NoRemoteModel>;
  /**
   * A file by its path below the folder. Requests the list of its folder on the Hub, and the first bytes if that list
   * has no hash and from other servers.
   *
   * @throws RemoteError; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`
   */
  find(name: string, signal: AbortSignal): Promise<SourceFile>;
}

/** The caller's knowledge of a source. */
export interface VersionOptions {
  /** Identifies files without a hash, in place of their URL, ETag and `Last-Modified`. */
  readonly versionId?: string | undefined;
}

/** Finds the kind and files of the source. */
export async function findSourceFiles(
  { address, session }: SourceSession,
  { versionId, variant }: VersionOptions & SourceChoice,
  signal: AbortSignal,
): Promise<SourceFiles> {
  if (address.hub === null) return urlFiles(session, address.url, versionId);
  const { endpoint, id } = address.hub;
  const repository = new HubRepository(session, endpoint, id);
  const at = (revision: string): HubRepository =>
    new HubRepository(session, endpoint, { ...id, revision });
  const choice = { versionId, variant };
  try {
    return await hubFiles(repository, at, address.hub, choice, signal);
  } catch (error) {
    if (!repository.lacksApi) throw error;
    return unlistedFiles(repository, address.hub, choice, error as RemoteError);
  }
}

/** Whether a file of this name is an index. */
export function isIndexName(name: string): boolean {
  return indexesAmong([name]).length > 0;
}

/** Folder, with a slash at its end unless it is empty, and name. */
export function splitPath(path: string): [prefix: string, name: string] {
  const end = path.lastIndexOf('/') + 1;
  return [path.slice(0, end), path.slice(end)];
}

/** Whether a file has the name of a safetensors file, at its source or at its place. */
export function isNamedSafetensors(name: string, place: string): boolean {
  return [name, place].some((path) => path.endsWith(SHARD_EXTENSION));
}

/** A file of that length, all of whose bytes are wanted. Without a hash, its header shows whether it is complete. */
function wholeFile(
  file: HttpFile,
  facts: Pick<SourceFile, 'name' | 'byteLength' | 'hash' | 'version' | 'isXetOnly' | 'start'>,
): SourceFile {
  const segments = [{ file, begin: 0, end: facts.byteLength }];
  const whole = { ...facts, segments, whole: file };
  const receive: DownloadItem['receive'] = async (target, place, scope) => {
    const received = await receiveFile(whole, target, scope);
    const { name, byteLength, hash } = facts;
    if (hash === null && isNamedSafetensors(name, place)) {
      await requireHeader(target, { byteLength, source: file.path }, scope.signal);
    }
    return received;
  };
  return { ...facts, file, receive };
}

/** Deletes a received file whose header is invalid or declares another length. Throws as `readFileHeader`. */
async function requireHeader(
  target: Replacement,
  { byteLength, source }: { readonly byteLength: number; readonly source: string },
  signal: AbortSignal,
): Promise<void> {
  const { fd, path } = target;
  try {
    await runAsync(readFileHeader({ fd, path, byteLength }, { path: source }), signal);
  } catch (error) {
    if (error instanceof FormatError) target.giveUp();
    throw error;
  }
}

/** The name of the file at a URL, decoded unless the result is no file name. */
function fileNameOf({ pathname }: URL): string {
  const [, encoded] = splitPath(pathname);
  try {
    const name = decodeURIComponent(encoded);
    return pathError(name) === null && !name.includes('/') ? name : encoded;
  } catch {
    return encoded;
  }
}

function urlFiles(session: Session, url: URL, versionId: string | undefined): SourceFiles {
  const { file, folder } = urlSource(session, url);
  const name = fileNameOf(url);
  return {
    path: shownUrl(url),
    name,
    variant: undefined,
    entries: null,
    hub: null,
    listAll: async () => null,
    find: async (wanted, signal) => {
      const found = wanted === name ? file : folder.file(wanted);
      const { bytes, fileByteLength } = await firstBytesOf(found, wanted, 0, signal);
      const version = versionOf(found, wanted, versionId);
      const facts = { name: wanted, byteLength: fileByteLength, hash: null, version };
      return wholeFile(found, { ...facts, isXetOnly: false, start: bytes });
    },
  };
}

/**
 * Length of a file and its first bytes, which show the format. `listed` is the length according to a list, or 0; it
 * counts if no answer has one. Rejects a web page.
 */
async function firstBytesOf(
  file: HttpFile,
  name: string,
  listed: number,
  signal: AbortSignal,
): Promise<FileStart> {
  const { bytes, fileByteLength } = await firstBytes(file, name, listed, signal);
  const start = { bytes: bytes.slice(0, HEAD_BYTE_LENGTH), fileByteLength };
  file.requireNoPage(start);
  return start;
}

async function firstBytes(
  file: HttpFile,
  name: string,
  listed: number,
  signal: AbortSignal,
): Promise<FileStart> {
  const head = await file.readHead(HEAD_BYTE_LENGTH, signal);
  const fileByteLength = head.fileByteLength ?? (listed > 0 ? listed : undefined);
  if (fileByteLength !== undefined) return { bytes: head.bytes, fileByteLength };
  // The end of a small file shows its length.
  const maxByteLength = isIndexName(name) ? DEFAULT_MAX_INDEX_BYTE_LENGTH : FIRST_BYTE_LENGTH;
  const start = await file.readStart(maxByteLength, signal);
  if (start.isDecoded !== true || isIndexName(name)) return start;
  const message =
    'expected a file of known length, found a compressed answer (Content-Encoding), whose length proves nothing, ' +
    'without a hash from the Hub';
  throw new RemoteError('SAFETENSORS_BAD_RESPONSE', message, { path: file.path, status: 200 });
}

async function hubFiles(
  repository: HubRepository,
  at: (revision: string) => HubRepository,
  address: HubAddress,
  { versionId, variant }: VersionOptions & SourceChoice,
  signal: AbortSignal,
): Promise<SourceFiles> {
  const commit = await repository.pinCommit(signal);
  const folders = new FolderLists(repository);
  const { path } = address.id;
  const [above, last] = splitPath(path);
  const named = path === '' ? undefined : await folders.find(above, last, signal);
  const isFolder = named === undefined || named.isFolder;
  if (!isFolder && variant !== undefined) throw noVariant('a file', variant);
  const prefix = !isFolder ? above : path === '' ? '' : `${path}/`;
  const shown = repository.file(path).path;
  return {
    path: isFolder ? repository.pageOf(path) : shown,
    name: isFolder ? null : last,
    variant,
    entries: isFolder ? [...(await folders.list(prefix, signal)).values()] : null,
    hub: {
      ...{ address, commit, prefix },
      hasCommit: async (other, ends) => other === commit || (await isThere(at(other), ends)),
    },
    listAll: async (signal) => (isFolder ? await folders.listAll(prefix, signal) : null),
    noModel: (names, none, signal) => noModelIn(repository, path, names, none, signal),
    find: async (name, signal) => {
      requireInside(name, shown);
      const [below, last] = splitPath(prefix + name);
      const entry = await folders.find(below, last, signal);
      const file = repository.file(entry.path);
      const { hash, isXet } = entry;
      // Without a hash only the file itself tells whether the list's length is right.
      const listed = entry.byteLength;
      const start = hash === '' ? await firstBytesOf(file, name, listed, signal) : null;
      const byteLength = start?.fileByteLength ?? listed;
      const isXetOnly = isXet && byteLength > MAX_XET_BYTE_LENGTH;
      const facts = {
        name,
        byteLength,
        hash: hash || null,
        isXetOnly,
        start: start?.bytes ?? null,
      };
      return wholeFile(file, { ...facts, version: hash || versionOf(file, name, versionId) });
    },
  };
}

/** The files of a repository whose server has no API: no lists, no hashes. */
function unlistedFiles(
  repository: HubRepository,
  { id, isFile }: HubAddress,
  { versionId, variant }: VersionOptions & SourceChoice,
  cause: RemoteError,
): SourceFiles {
  const [above, last] = splitPath(id.path);
  const isNamed = id.path !== '' && (isFile || last.includes('.'));
  if (isNamed && variant !== undefined) throw noVariant('a file', variant);
  const prefix = isNamed || id.path === '' ? above : `${id.path}/`;
  const path = isNamed ? repository.file(id.path).path : repository.pageOf(id.path);
  const { status } = cause;
  const message =
    `found status ${status} from the API that lists the repository: the server (HF_ENDPOINT) has no such API, or no ` +
    'such repository; without a list, download takes a file (hf://org/name/model.safetensors), an index with its ' +
    'shards (hf://org/name/model.safetensors.index.json), or the files that `files` names without `*`';
  const context = { path, status, url: cause.url, cause };
  return {
    path,
    name: isNamed ? last : null,
    unlisted: new RemoteError('SAFETENSORS_REMOTE_NOT_FOUND', message, context),
    variant,
    entries: null,
    hub: null,
    listAll: async () => null,
    find: async (name, signal) => {
      requireInside(name, path);
      const file = repository.file(prefix + name);
      const { bytes, fileByteLength } = await firstBytesOf(file, name, 0, signal);
      const facts = { name, byteLength: fileByteLength, hash: null, isXetOnly: false };
      return wholeFile(file, { ...facts, start: bytes, version: versionOf(file, name, versionId) });
    },
  };
}

/** Whether the Hub lists the files of a revision. */
async function isThere(revision: HubRepository, signal: AbortSignal): Promise<boolean> {
  try {
    await revision.list('', signal);
    return true;
  } catch (error) {
    if (error instanceof RemoteError) return false;
    throw error;
  }
}

/** The direct entries of a folder, by path. */
type FolderList = ReadonlyMap<string, RepositoryEntry>;

/** Lists of folders, each requested once. */
class FolderLists {
  readonly #repository: HubRepository;
  readonly #lists = new Map<string, Promise<FolderList>>();

  constructor(repository: HubRepository) {
    this.#repository = repository;
  }

  /** The direct entries of a folder, without repetitions. */
  async list(prefix: string, signal: AbortSignal): Promise<FolderList> {
    const listed = this.#lists.get(prefix) ?? this.#ask(prefix, signal);
    this.#lists.set(prefix, listed);
    return await listed;
  }

  /** The files in a folder and in those below it, whose lists are then known. */
  async listAll(prefix: string, signal: AbortSignal): Promise<RepositoryEntry[]> {
    const listed = await this.#repository.list(prefix.slice(0, -1), signal, true);
    const lists = new Map<string, Map<string, RepositoryEntry>>([[prefix, new Map()]]);
    const listAt = (folder: string): Map<string, RepositoryEntry> => {
      const list = lists.get(folder) ?? new Map<string, RepositoryEntry>();
      lists.set(folder, list);
      return list;
    };
    for (const entry of listed) {
      const [above] = splitPath(entry.path);
      if (above.startsWith(prefix)) listAt(above).set(entry.path, entry);
    }
    const known = Array.from(lists.values(), (list) => [...list.values()]).flat();
    // A server that does not list what is below would make part of a repository look like all of it.
    const unlisted = known.find(({ path, isFolder }) => isFolder && !lists.has(`${path}/`));
    if (unlisted !== undefined) {
      const message = `expected the files of all folders, found none of ${quoteName(unlisted.path)}`;
      const path = this.#repository.pageOf(prefix.slice(0, -1));
      throw new RemoteError('SAFETENSORS_BAD_RESPONSE', message, { path });
    }
    for (const [folder, list] of lists) this.#lists.set(folder, Promise.resolve(list));
    return known.filter(({ isFolder }) => !isFolder);
  }

  /** A file or folder; throws RemoteError `SAFETENSORS_REMOTE_NOT_FOUND`. */
  async find(prefix: string, name: string, signal: AbortSignal): Promise<RepositoryEntry> {
    const found = (await this.list(prefix, signal)).get(prefix + name);
    if (found !== undefined) return found;
    const path = this.#repository.file(prefix + name).path;
    const message = 'the list of the repository has no such file';
    const error = new RemoteError('SAFETENSORS_REMOTE_NOT_FOUND', message, { path });
    throw reportsAbsence(error, 'source');
  }

  async #ask(prefix: string, signal: AbortSignal): Promise<FolderList> {
    const entries = await this.#repository.list(prefix.slice(0, -1), signal);
    const here = entries.filter(({ path }) => splitPath(path)[0] === prefix);
    return new Map(here.map((entry) => [entry.path, entry]));
  }
}
