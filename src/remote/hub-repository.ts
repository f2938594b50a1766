/** A repository on the Hub: its files, all of the commit that answers first. */

import { FileChangedError } from '../errors/errors.js';
import type { HubId } from '../hub/ids.js';
import { type FileAddress, HttpFile } from './http-file.js';
import { apiUrl, fileUrl, type HubQuestion, pageUrl } from './hub-address.js';
import { type Answer, readPieces, refused, request } from './request.js';
import { shownUrl } from './safe-urls.js';
import type { Session, Try } from './session.js';

/** Longest answer of the Hub's API that is read, in bytes. A folder of 1000 files takes 300 kB. */
const MAX_ANSWER_BYTE_LENGTH = 10_000_000;

const COMMIT = /^[0-9a-f]{40}$/;

/** A file or a folder in a repository. */
export interface RepositoryEntry {
  /** Path from the root of the repository. */
  readonly path: string;
  readonly isFolder: boolean;
}

/** A repository at one revision. */
export class HubRepository {
  readonly #session: Session;
  readonly #endpoint: string;
  readonly #id: HubId;
  readonly #revision: string;
  #commit: string | undefined;

  /** Asks nothing yet. `endpoint` has no slash at its end. */
  constructor(session: Session, endpoint: string, id: HubId) {
    this.#session = session;
    this.#endpoint = endpoint;
    this.#id = id;
    this.#revision = id.revision ?? 'main';
    if (COMMIT.test(this.#revision)) this.#commit = this.#revision;
  }

  /** The commit that the files are of, as soon as an answer has named it. */
  get commit(): string | undefined {
    return this.#commit;
  }

  /** The page of a folder, for messages. */
  pageOf(folder: string): string {
    return shownUrl(pageUrl(this.#endpoint, this.#id, this.#revision, folder));
  }

  /** A file by its path, which the caller has checked. */
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
      pin: (tried) => this.#askCommit(tried),
    };
    return new HttpFile(this.#session, address);
  }

  /** What is in a folder; at most the first thousand entries. One request. */
  async list(folder: string, signal: AbortSignal): Promise<RepositoryEntry[]> {
    const path = shownUrl(this.#url('tree', folder));
    const found = await this.#session.request(path, signal, (tried) =>
      this.#ask('tree', folder, tried),
    );
    const entries: unknown[] = Array.isArray(found) ? found : [];
    return entries.flatMap((entry) => {
      const { path, type } = Object(entry);
      return typeof path === 'string' ? [{ path, isFolder: type === 'directory' }] : [];
    });
  }

  #pin(commit: string, path: string): void {
    this.#commit ??= commit;
    if (this.#commit === commit) return;
    const message = `expected commit ${this.#commit}, as in the first answer, found ${commit}`;
    throw new FileChangedError(`${message}; open it again`, { path });
  }

  async #askCommit(tried: Try): Promise<void> {
    if (this.#commit !== undefined) return;
    const { sha } = Object(await this.#ask('revision', '', tried));
    if (typeof sha === 'string' && COMMIT.test(sha)) this.#commit = sha;
  }

  #url(question: HubQuestion, folder: string): URL {
    const revision = this.#commit ?? this.#revision;
    return apiUrl(this.#endpoint, this.#id, question, revision, folder);
  }

  /** Asks the Hub's API, in one try. */
  async #ask(question: HubQuestion, folder: string, tried: Try): Promise<unknown> {
    const session = this.#session;
    const url = this.#url(question, folder);
    const path = shownUrl(url);
    const answer = await request(session, { url, isForeign: false, path }, tried);
    if (answer.response.status !== 200) {
      const asked = { path, isOnHub: true, origin: url.origin };
      throw await refused(session, answer, asked, tried);
    }
    return await readJson(session, answer, path, tried);
  }
}

/** The JSON of a body. */
async function readJson(
  session: Session,
  answer: Answer,
  path: string,
  tried: Try,
): Promise<unknown> {
  const decoder = new TextDecoder();
  let byteLength = 0;
  let text = '';
  const refuse = (): never => {
    const message = `expected at most ${MAX_ANSWER_BYTE_LENGTH} bytes of JSON, found something else`;
    const { url } = answer;
    throw session.error('SAFETENSORS_BAD_RESPONSE', message, { path, url, status: 200 });
  };
  await readPieces(session, answer, path, tried, (piece) => {
    byteLength += piece.byteLength;
    if (byteLength > MAX_ANSWER_BYTE_LENGTH) refuse();
    text += decoder.decode(piece, { stream: true });
  });
  try {
    return JSON.parse(text + decoder.decode());
  } catch {
    return refuse();
  }
}
