/**
 * A Hugging Face Hub on this machine, for tests: repositories with their revisions, the Hub's addresses, headers,
 * redirects and errors, and a second server next to it, the content network, which has the large files. It records
 * its requests.
 */
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';

/** A large file of which only the start matters: zeros follow, which take no memory. */
export interface SparseContent {
  readonly start: Uint8Array;
  readonly byteLength: number;
}

export type Content = string | Uint8Array | SparseContent;

/** Files by path. */
export type Files = Readonly<Record<string, Content>>;

export interface HubRepository {
  /** The files of `main`. */
  readonly files: Files;
  /** Those of other branches, tags and refs. */
  readonly revisions?: Readonly<Record<string, Files>>;
  /** A private repository exists for `TOKEN` only; a gated one is known to everybody. Public unless given. */
  readonly access?: 'private' | 'gated';
  /** Further names, as after a renaming: requests for them are redirected. */
  readonly formerNames?: readonly string[];
}

export interface HubRequest {
  readonly server: 'hub' | 'network';
  readonly method: string;
  /** Path and query. */
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
}

/** The token of a user who may read everything. */
export const TOKEN = 'hf_reader';

/** Of such files a repository only has pointers. */
const LARGE_FILE = /\.(?:safetensors|bin|gguf)$/;

/** As the Hub and its content network say it: pages of other sites may ask, and see these headers. */
const FOR_PAGES = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Headers': 'Authorization, Range',
  'Access-Control-Expose-Headers':
    'X-Repo-Commit, X-Error-Code, X-Error-Message, ETag, Link, Accept-Ranges, Content-Range, X-Linked-Size, X-Linked-ETag',
};

const JSON_TYPE = 'application/json; charset=utf-8';

interface StoredFile {
  readonly start: Uint8Array;
  readonly byteLength: number;
  /** Hash of the content, for a large file; else its git hash. */
  readonly hash: string;
  readonly isLarge: boolean;
}

interface Snapshot {
  readonly commit: string;
  readonly files: ReadonlyMap<string, StoredFile>;
}

/** An answer without a body of its own. */
class Rejection extends Error {
  readonly status: number;
  readonly errorCode: string | undefined;

  constructor(status: number, errorCode: string | undefined, message: string) {
    super(message);
    this.status = status;
    this.errorCode = errorCode;
  }
}

function hashOf(algorithm: 'sha1' | 'sha256', ...parts: (string | Uint8Array)[]): string {
  const hash = createHash(algorithm);
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
}

function store(path: string, content: Content): StoredFile {
  const isLarge = LARGE_FILE.test(path);
  const sparse = typeof content === 'object' && 'start' in content ? content : undefined;
  const start = sparse?.start ?? Buffer.from(content as string | Uint8Array);
  const byteLength = sparse?.byteLength ?? start.length;
  // The zeros of a sparse file are not worth hashing.
  const hash = isLarge ? hashOf('sha256', start) : hashOf('sha1', `blob ${start.length}\0`, start);
  return { start, byteLength, hash, isLarge };
}

function pointerTo({ hash, byteLength }: StoredFile): Buffer {
  return Buffer.from(
    `version https://git-lfs.github.com/spec/v1\noid sha256:${hash}\nsize ${byteLength}\n`,
  );
}

/** The bytes [begin, end) of a file, in pieces. */
function* piecesOf({ start }: StoredFile, begin: number, end: number): Generator<Uint8Array> {
  if (begin < start.length) yield start.subarray(begin, Math.min(end, start.length));
  const zeros = new Uint8Array(2 ** 16);
  for (let at = Math.max(begin, start.length); at < end; at += zeros.length) {
    yield zeros.subarray(0, Math.min(zeros.length, end - at));
  }
}

/** The entries of a folder itself, folders among them; with `isDeep` those of the folders below it, too. */
function withFolders(
  entries: readonly { readonly path: string }[],
  folder: string,
  isDeep: boolean,
): object[] {
  const found = new Map<string, object>();
  for (const entry of entries) {
    let end = entry.path.indexOf('/', folder.length);
    if (end === -1 || isDeep) found.set(entry.path, entry);
    for (; end !== -1; end = isDeep ? entry.path.indexOf('/', end + 1) : -1) {
      const path = entry.path.slice(0, end);
      found.set(path, { type: 'directory', oid: hashOf('sha1', path), size: 0, path });
    }
  }
  return [...found.values()];
}

/** Kinds of repositories that have a prefix in front of their names. */
const PREFIXED_KINDS: readonly string[] = ['datasets', 'spaces'];

/** The name with its kind, as the Hub's API has it. */
function apiName(name: string): string {
  return PREFIXED_KINDS.some((kind) => name.startsWith(`${kind}/`)) ? name : `models/${name}`;
}

function listen(server: Server): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    });
  });
}

export class HubServer {
  /** The requests, in order. Empty it to count again. */
  readonly requests: HubRequest[] = [];
  /** Entries of a list that one answer has. */
  entriesPerPage = 1000;
  readonly #hub: Server;
  readonly #network: Server;
  #url = '';
  #networkUrl = '';
  readonly #snapshots = new Map<string, ReadonlyMap<string, Snapshot>>();
  readonly #repositories = new Map<string, HubRepository>();
  readonly #newNames = new Map<string, string>();
  /** The files of the content network, by hash. */
  readonly #large = new Map<string, StoredFile>();

  private constructor() {
    this.#hub = createServer((request, response) => {
      void this.#answer('hub', request, response, () => this.#answerHub(request, response));
    });
    this.#network = createServer((request, response) => {
      void this.#answer('network', request, response, () => this.#answerNetwork(request, response));
    });
  }

  /** Starts both servers, for these repositories by their names. */
  static async start(repositories: Readonly<Record<string, HubRepository>>): Promise<HubServer> {
    const hub = new HubServer();
    hub.#url = await listen(hub.#hub);
    hub.#networkUrl = await listen(hub.#network);
    for (const [name, repository] of Object.entries(repositories)) hub.put(name, repository);
    return hub;
  }

  /** The Hub's address, for `HF_ENDPOINT`. */
  get url(): string {
    return this.#url;
  }

  /** The number of open connections to both servers. */
  async connections(): Promise<number> {
    const counts = [this.#hub, this.#network].map((server) => {
      return promisify(server.getConnections.bind(server))();
    });
    const [hub = 0, network = 0] = await Promise.all(counts);
    return hub + network;
  }

  /** Adds a repository, or replaces it: its branches have other commits then. */
  put(name: string, repository: HubRepository): void {
    const snapshots = new Map<string, Snapshot>();
    for (const [revision, files] of Object.entries({
      ...repository.revisions,
      main: repository.files,
    })) {
      const stored = new Map(
        Object.entries(files).map(([path, content]) => [path, store(path, content)]),
      );
      const hashes = Array.from(stored, ([path, { hash }]) => `${path} ${hash}\n`);
      const commit = hashOf('sha1', `${name} ${revision}\n`, ...hashes);
      snapshots.set(revision, { commit, files: stored }).set(commit, { commit, files: stored });
      for (const file of stored.values()) if (file.isLarge) this.#large.set(file.hash, file);
    }
    this.#snapshots.set(name, snapshots);
    this.#repositories.set(name, repository);
    for (const former of repository.formerNames ?? []) this.#newNames.set(former, name);
  }

  /** The commit of a revision. */
  commit(name: string, revision = 'main'): string {
    return this.#snapshot(name, revision).commit;
  }

  /** Stops both servers, even while they send. */
  async close(): Promise<void> {
    for (const server of [this.#hub, this.#network]) {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    }
  }

  async #answer(
    server: 'hub' | 'network',
    request: IncomingMessage,
    response: ServerResponse,
    answer: () => Promise<void>,
  ): Promise<void> {
    const { method = '', url: path = '', headers } = request;
    this.requests.push({ server, method, path, headers });
    for (const [name, value] of Object.entries(FOR_PAGES)) response.setHeader(name, value);
    if (method === 'OPTIONS') return void response.writeHead(204).end();
    try {
      await answer();
    } catch (error) {
      // The client may have gone.
      if (!(error instanceof Rejection)) return void response.destroy();
      if (error.errorCode !== undefined) response.setHeader('X-Error-Code', error.errorCode);
      response.setHeader('X-Error-Message', error.message);
      if (method === 'HEAD') return void response.writeHead(error.status).end();
      response.writeHead(error.status, { 'Content-Type': JSON_TYPE });
      response.end(JSON.stringify({ error: error.message }));
    }
  }

  async #answerHub(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, search } = new URL(request.url ?? '/', this.#url);
    const parts = pathname.slice(1).split('/').map(decodeURIComponent);
    const isApi = parts[0] === 'api';
    const isCached = isApi && parts[1] === 'resolve-cache';
    const place = isCached ? 2 : isApi ? 1 : 0;
    const isModel = isApi && parts[place] === 'models';
    const [name, rest] = this.#takeName(parts.slice(isModel ? place + 1 : place));
    const newName = this.#newNames.get(name);
    if (newName !== undefined) {
      const target = `${pathname.replace(name, newName)}${search}`;
      response.writeHead(307, { Location: target }).end();
      return;
    }
    this.#requireAccess(name, request);
    if (isCached) {
      const [commit = '', ...path] = rest;
      const file = this.#file(this.#snapshot(name, commit).files, path.join('/'));
      response.setHeader('X-Repo-Commit', commit);
      await this.#sendFile(request, response, file);
    } else if (isApi) this.#answerApi(name, rest, new URLSearchParams(search), response);
    else await this.#answerFile(name, rest, request, response);
  }

  /** A repository without organisation has a name of one part; a dataset is stored as `datasets/org/name`. */
  #takeName(parts: string[]): [name: string, rest: string[]] {
    const [first = '', second = '', third] = parts;
    if (PREFIXED_KINDS.includes(first)) return [`${first}/${second}/${third}`, parts.slice(3)];
    if (this.#repositories.has(first)) return [first, parts.slice(1)];
    return [`${first}/${second}`, parts.slice(2)];
  }

  #requireAccess(name: string, { headers }: IncomingMessage): void {
    const { authorization } = headers;
    const access = this.#repositories.get(name)?.access;
    const isKnown = this.#repositories.has(name);
    if (authorization === `Bearer ${TOKEN}` && isKnown) return;
    if (authorization === undefined && (!isKnown || access === 'private')) {
      throw new Rejection(401, 'RepoNotFound', 'Invalid username or password.');
    }
    if (!isKnown || access === 'private') {
      throw new Rejection(404, 'RepoNotFound', 'Repository not found');
    }
    if (access !== 'gated') return;
    const status = authorization === undefined ? 401 : 403;
    throw new Rejection(status, 'GatedRepo', `Access to model ${name} is restricted.`);
  }

  #snapshot(name: string, revision: string): Snapshot {
    const found = this.#snapshots.get(name)?.get(revision);
    if (found === undefined) throw new Rejection(404, 'RevisionNotFound', 'Invalid rev id');
    return found;
  }

  #file(files: Snapshot['files'], path: string): StoredFile {
    const found = files.get(path);
    if (found === undefined) throw new Rejection(404, 'EntryNotFound', 'Entry not found');
    return found;
  }

  async #answerFile(
    name: string,
    [kind, revision = '', ...path]: string[],
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<void> {
    if (kind !== 'resolve' && kind !== 'raw') throw new Rejection(404, undefined, 'Not found');
    const { commit, files } = this.#snapshot(name, revision);
    response.setHeader('X-Repo-Commit', commit);
    const file = this.#file(files, path.join('/'));
    if (kind === 'raw') {
      const text = file.isLarge ? pointerTo(file) : file.start;
      await this.#sendFile(request, response, store('pointer', text));
      return;
    }
    response.setHeader('X-Linked-Size', file.byteLength);
    response.setHeader('X-Linked-ETag', `"${file.hash}"`);
    response.setHeader('ETag', `"${file.hash}"`);
    const below = path.map(encodeURIComponent).join('/');
    const target = file.isLarge
      ? `${this.#networkUrl}/blobs/${file.hash}?X-Amz-Expires=3600&X-Amz-Signature=${commit}`
      : `/api/resolve-cache/${apiName(name)}/${commit}/${below}?etag=%22${file.hash}%22`;
    response.writeHead(file.isLarge ? 302 : 307, { Location: target }).end();
  }

  #answerApi(
    name: string,
    [kind, revision = 'main', ...path]: string[],
    query: URLSearchParams,
    response: ServerResponse,
  ): void {
    const { commit, files } = this.#snapshot(name, revision);
    const entries = Array.from(files, ([path, file]) => ({ path, file }));
    const folder = path.map((part) => `${part}/`).join('');
    const lfs = ({ hash, byteLength, isLarge }: StoredFile): object =>
      isLarge ? { lfs: { oid: hash, sha256: hash, size: byteLength, pointerSize: 134 } } : {};
    const tree = entries.map(({ path, file }) => ({
      type: 'file',
      oid: file.isLarge ? hashOf('sha1', pointerTo(file)) : file.hash,
      size: file.byteLength,
      path,
      ...lfs(file),
      ...(file.isLarge ? { xetHash: file.hash } : {}),
    }));
    const siblings = entries.map(({ path, file }) => ({
      rfilename: path,
      size: file.byteLength,
      ...lfs(file),
    }));
    const { access } = this.#repositories.get(name) as HubRepository;
    const facts = {
      id: name,
      sha: commit,
      private: access === 'private',
      gated: access === 'gated' ? 'manual' : false,
      siblings,
    };
    response.setHeader('X-Repo-Commit', commit);
    response.setHeader('Content-Type', JSON_TYPE);
    if (kind !== 'tree') return void response.end(JSON.stringify(facts));
    const below = tree.filter((entry) => entry.path.startsWith(folder));
    if (below.length === 0) throw new Rejection(404, 'EntryNotFound', `${folder} does not exist`);
    const isDeep = /^true$/i.test(query.get('recursive') ?? '');
    const listed = withFolders(below, folder, isDeep);
    const begin = Number(query.get('cursor') ?? 0);
    const end = begin + this.entriesPerPage;
    if (end < listed.length) {
      const address = `${this.#url}/api/${apiName(name)}/tree/${[revision, ...path].join('/')}`;
      const next = `${address}?${isDeep ? 'recursive=true&' : ''}cursor=${end}`;
      response.setHeader('Link', `<${next}>; rel="next"`);
    }
    response.end(JSON.stringify(listed.slice(begin, end)));
  }

  async #answerNetwork(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { pathname, searchParams } = new URL(request.url ?? '/', this.#networkUrl);
    // As object stores do: the signature is the only way to be let in.
    if (request.headers.authorization !== undefined) {
      throw new Rejection(400, undefined, 'Only one auth mechanism allowed');
    }
    const file = this.#large.get(pathname.replace('/blobs/', ''));
    if (file === undefined || !searchParams.has('X-Amz-Signature')) {
      throw new Rejection(403, undefined, 'Access denied');
    }
    await this.#sendFile(request, response, file);
  }

  /** Sends a file, or the range that is asked for. */
  async #sendFile(
    request: IncomingMessage,
    response: ServerResponse,
    file: StoredFile,
  ): Promise<void> {
    const { byteLength, hash } = file;
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
    const begin = Number(first ?? 0);
    const end = last ? Math.min(Number(last) + 1, byteLength) : byteLength;
    response.setHeader('ETag', `"${hash}"`);
    response.setHeader('Accept-Ranges', 'bytes');
    if (first !== undefined && begin >= end) {
      response.writeHead(416, { 'Content-Range': `bytes */${byteLength}` }).end();
      return;
    }
    response.setHeader('Content-Length', end - begin);
    if (first !== undefined) {
      response.setHeader('Content-Range', `bytes ${begin}-${end - 1}/${byteLength}`);
    }
    response.writeHead(first === undefined ? 200 : 206);
    if (request.method === 'HEAD') response.end();
    else await pipeline(Readable.from(piecesOf(file, begin, end)), response);
  }
}
