/** A repository on the Hub: its files, all of the first answer's commit. */

import { PASS_CREDENTIALS } from '../errors/advice.js';
import { FileChangedError, type SafetensorsError } from '../errors/errors.js';
import { type HubId, hubUri, isCommit } from '../file/hub/ids.js';
import { type FileAddress, HttpFile } from './http-file.js';
import { apiUrl, fileUrl, type HubQuestion, pageUrl } from './hub-address.js';
import type { ListedEntry, Repository } from './repository.js';
import { type Answer, readPieces, rejection, request } from './request.js';
import { isWithoutApi } from './response-errors.js';
import { shownUrl } from './safe-urls.js';
import type { Session, Try } from './session.js';
import { isCalledPage, pageMessage } from './web-page.js';

/** Longest answer of the Hub's API to read, in bytes. One about a revision may name all files. */
const MAX_ANSWER_BYTE_LENGTH = 10_000_000;

/** Longest page of a list to read, in bytes. The Hub's pages have a thousand entries, and about 300 kB. */
const MAX_PAGE_BYTE_LENGTH = 2_000_000;

/** Most pages of a list, which might never end. The Hub advises against more files than these can name. */
const MAX_PAGES = 100;

/** Most entries of a list: those of the Hub's pages. Pages of the same length could name far more. */
const MAX_ENTRIES = 1000 * MAX_PAGES;

/** A file or a folder in a repository. */
export interface RepositoryEntry extends ListedEntry {
  /** Length of a file in bytes. */
  readonly byteLength: number;
  /**
   * Hash of a file in hexadecimal digits: SHA-256 of a large file, git's SHA-1 of others. Empty if the Hub doesn't
   * tell.
   */
  readonly hash: string;
  /** Whether the Hub keeps it in its Xet storage. */
  readonly isXet: boolean;
}

const HASH = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** A mirror may leave the type of files out. */
const KNOWN_TYPES: readonly unknown[] = ['file', 'directory', undefined];

/** The facts of an entry in the list; undefined for anything else. */
function repositoryEntry(entry: unknown): RepositoryEntry | undefined {
  const { path, type, size, oid, lfs, xetHash } = Object(entry);
  // Other types, as of submodules, have no contents here.
  if (typeof path !== 'string' || !KNOWN_TYPES.includes(type)) return undefined;
  const hash = Object(lfs).oid ?? oid;
  return {
    path,
    isFolder: type === 'directory',
    byteLength: Number.isSafeInteger(size) && size >= 0 ? size : 0,
    hash: typeof hash === 'string' && HASH.test(hash) ? hash : '',
    isXet: typeof xetHash === 'string',
  };
}

/** A page of a list. */
interface Page {
  readonly json: unknown;
  /** URL of the next one. */
  readonly next: URL | undefined;
}

/** A repository at one revision, read by requests. */
export class HubRepository implements Repository {
  readonly #session: Session;
  readonly #endpoint: string;
  readonly #id: HubId;
  readonly #revision: string;
  #commit: string | undefined;
  #lacksApi = false;

  /** Sends no request yet. `endpoint` has no slash at its end. */
  constructor(session: Session, endpoint: string, id: HubId) {
    this.#session = session;
    this.#endpoint = endpoint;
    this.#id = id;
    this.#revision = id.revision ?? 'main';
    if (isCommit(this.#revision)) this.#commit = this.#revision;
  }

  /** The commit of the files, once an answer has named it. */
  get commit(): string | undefined {
    return this.#commit;
  }

  get lacksApi(): boolean {
    return this.#lacksApi;
  }

  pageOf(folder: string): string {
    return shownUrl(pageUrl(this.#endpoint, this.#id, this.#revision, folder));
  }

  uriOf(relative: string): string {
    const path = [this.#id.path, relative].filter(Boolean).join('/');
    return hubUri(this.#id, relative) ?? this.pageOf(path);
  }

  file(path: string): HttpFile {
    const repository = this;
    const at = (revision: string): URL => fileUrl(this.#endpoint, this.#id, revision, path);
    const address: FileAddress = {
      path: shownUrl(at(this.#revision)),
      isOnHub: true,
      get commit() {
        return repository.#commit;
      },
      url: () => at(this.#commit ?? this.#revision),
      answeredBy: (commit) => this.#pin(commit, address.path),
      pin: async (tried) => {
        try {
          await this.#requestCommit(tried);
        } catch (error) {
          // Without a commit, the answers pin each file by themselves.
          if (!this.#lacksApi) throw error;
        }
      },
    };
    return new HttpFile(this.#session, address);
  }

  /** One request per thousand entries. */
  async list(folder: string, signal: AbortSignal, isDeep = false): Promise<RepositoryEntry[]> {
    const entries: RepositoryEntry[] = [];
    let url: URL | undefined = this.#url('tree', folder);
    if (isDeep) url.search = '?recursive=true';
    for (let pages = 0; url !== undefined; pages++) {
      const asked: URL = url;
      const path = shownUrl(asked);
      const bad = (message: string): Error =>
        this.#session.error('SAFETENSORS_BAD_RESPONSE', message, { path, url: asked });
      if (pages === MAX_PAGES)
        throw bad(`expected a list of at most ${MAX_PAGES} pages, found more`);
      const { json, next } = await this.#session.request(path, signal, (tried) =>
        this.#ask(asked, MAX_PAGE_BYTE_LENGTH, tried),
      );
      // A part of a folder may have the model; a part of all files is not all of them.
      if (isDeep && !Array.isArray(json)) throw bad('expected a list of files, found other JSON');
      const page: unknown[] = Array.isArray(json) ? json : [];
      if (entries.length + page.length > MAX_ENTRIES) {
        throw bad(`expected a list of at most ${MAX_ENTRIES} entries, found more`);
      }
      entries.push(...page.map(repositoryEntry).filter((entry) => entry !== undefined));
      if (next !== undefined && next.origin !== asked.origin) {
        // It does not get the token.
        if (!isDeep) break;
        throw bad(`expected the next page of the list on the same server, found ${shownUrl(next)}`);
      }
      url = next;
    }
    return entries;
  }

  /** The same error: the server has no other files. */
  incompleteError(error: SafetensorsError): SafetensorsError {
    return error;
  }

  /** Finds and pins the commit. At most one request. */
  async pinCommit(signal: AbortSignal): Promise<string> {
    const url = this.#url('revision', '');
    const path = shownUrl(url);
    await this.#session.request(path, signal, (tried) => this.#requestCommit(tried));
    if (this.#commit !== undefined) return this.#commit;
    const message = 'expected the commit of the revision in `sha`, found none';
    throw this.#session.error('SAFETENSORS_BAD_RESPONSE', message, { path, url });
  }

  #pin(commit: string, path: string): void {
    this.#commit ??= commit;
    if (this.#commit === commit) return;
    const message = `expected commit ${this.#commit}, as in the first answer, found ${commit}`;
    throw new FileChangedError(`${message}; open it again`, { path });
  }

  async #requestCommit(tried: Try): Promise<void> {
    if (this.#commit !== undefined) return;
    const url = this.#url('revision', '');
    const { sha } = Object((await this.#ask(url, MAX_ANSWER_BYTE_LENGTH, tried)).json);
    if (typeof sha === 'string' && isCommit(sha)) this.#commit = sha;
  }

  #url(question: HubQuestion, folder: string): URL {
    const revision = this.#commit ?? this.#revision;
    return apiUrl(this.#endpoint, this.#id, question, revision, folder);
  }

  /** Requests at most `maxByteLength` bytes from the Hub's API, in one try. */
  async #ask(url: URL, maxByteLength: number, tried: Try): Promise<Page> {
    const session = this.#session;
    const path = shownUrl(url);
    const answer = await request(session, { url, isForeign: false, path }, tried);
    const { status, headers } = answer.response;
    if (status !== 200) {
      const asked = { path, isOnHub: true, isForApi: true, origin: url.origin };
      const errorCode = headers.get('x-error-code') ?? '';
      this.#lacksApi = isWithoutApi({ ...asked, status, errorCode });
      throw await rejection(session, answer, asked, tried);
    }
    const next = nextPage(answer.response.headers, url);
    return { json: await readJson(session, answer, path, maxByteLength, tried), next };
  }
}

/** A link of the header `Link`, and its parameters. */
const LINK = /<([^<>]*)>((?:\s*;\s*[\w*-]+(?:\s*=\s*(?:"[^"]*"|[^\s",;]*))?)*)/g;
const IS_NEXT = /;\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next(?=\s*(?:;|$)))/i;

/** URL of the next page of a list, perhaps on another server. */
function nextPage(headers: Headers, url: URL): URL | undefined {
  const links = [...(headers.get('link') ?? '').matchAll(LINK)];
  const [, link] = links.find(([, , parameters = '']) => IS_NEXT.test(parameters)) ?? [];
  if (link === undefined || !URL.canParse(link, url.href)) return undefined;
  const next = new URL(link, url);
  // Requests take no such parts.
  next.username = next.password = '';
  return next;
}

/** The JSON of a body. */
async function readJson(
  session: Session,
  answer: Answer,
  path: string,
  maxByteLength: number,
  tried: Try,
): Promise<unknown> {
  const decoder = new TextDecoder();
  let byteLength = 0;
  let text = '';
  const refuse = (): never => {
    const { url, isAuthorized, response } = answer;
    const expected = `at most ${maxByteLength} bytes of JSON`;
    const isPage = isCalledPage(response.headers, url.pathname);
    const message = isPage
      ? pageMessage(expected, url, isAuthorized)
      : `expected ${expected}, found something else`;
    const ofPage = { foundFormat: 'html', advice: isAuthorized ? [] : [PASS_CREDENTIALS] } as const;
    const context = { path, url, status: 200, ...(isPage ? ofPage : {}) };
    throw session.error('SAFETENSORS_BAD_RESPONSE', message, context);
  };
  await readPieces(session, answer, path, tried, (piece) => {
    byteLength += piece.byteLength;
    if (byteLength > maxByteLength) refuse();
    text += decoder.decode(piece, { stream: true });
  });
  try {
    return JSON.parse(text + decoder.decode());
  } catch {
    return refuse();
  }
}
