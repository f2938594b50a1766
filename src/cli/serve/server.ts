/**
 * The server of `safetensors-mmap serve`: a page, a list of its sources, and their bytes. It computes nothing.
 *
 * What the page may count on:
 *
 * ```
 * GET /?token=TOKEN        the page. It keeps the token in memory, takes it out of the address bar, and sends it as the
 *                          header `x-safetensors-token` of every request below
 * GET /sources.json        { version: 1, sources: [{ name, files: [{ name, size, path }] }] }, as the files are now;
 *                          one source is one model, and the names of its files are those in its index
 * GET /source/0/NAME       the bytes of a file, at the `path` of the list, which is relative to the page. A worker of a
 *                          `blob:` URL has no such base: it needs whole addresses
 * GET /ranges?PATH:0-9     ranges of files, each after a line of JSON: `PATH:0-9+20-29,PATH:0-9`, up to 256
 * ```
 *
 * HEAD, too. Of a file one range: `bytes=a-b`, `a-` and `-n`. A strong ETag is the version of a file: `If-Match` gives
 * 412 for another, `If-None-Match` 304 for the same, and with `If-Range` another is sent whole. A file that changes
 * while it is sent breaks the connection. Statuses: 400 no such request, 403 another host, page or token, 404 no such
 * name or the file is gone, 405 other methods, 412, 416 no such range or several, 503 no descriptor is free.
 */

import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { hasCode } from '../../platform/io/system-errors.js';
import { requestedBytes } from './conditions.js';
import { Connections } from './connections.js';
import { hasToken, isSecret, METHODS, makeToken, objectionTo } from './guard.js';
import type { ServedFile, ServedSource } from './model-files.js';
import { OpenVersions } from './open-versions.js';
import type { Page } from './page.js';
import { rangesOf, sendRanges } from './range-list.js';
import { PieceMemory, sendBytes } from './send-bytes.js';

const HOST = '127.0.0.1';

/** Most connections. A browser has six for one page; so many slow readers take 25 MB. */
const MAX_CONNECTIONS = 256;

/** A connection without a whole request is closed after so long: it costs nothing to open thousands. */
const REQUEST_MS = 10_000;

/** Idle connections, and readers that take nothing. */
const IDLE_MS = 10_000;
const STALLED_MS = 120_000;

/** How often connections are looked at. */
const CHECK_MS = 1000;

/** Errors of a process that has too many files open. */
const NO_DESCRIPTORS: readonly string[] = ['EMFILE', 'ENFILE'];

/** Headers of every answer. */
const HEADERS: Readonly<Record<string, string>> = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
};

/** The policy of what is not the page: should a browser show it, it can do nothing. */
const NO_PAGE =
  "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox";

const PAGE_QUERY = '/?token=';
const OPEN_QUERY = '/?once=';
const LIST = '/sources.json';
const RANGES_QUERY = '/ranges?';

/** What is served. */
export interface Served {
  readonly page: Page;
  readonly sources: readonly ServedSource[];
  /** What follows the `#` of the address: the view that the page begins with. */
  readonly view?: string;
}

/** The path of a file below the page. */
function pathOf(source: number, { name }: ServedFile): string {
  const parts = name.toWellFormed().split('/');
  return `source/${source}/${parts.map(encodeURIComponent).join('/')}`;
}

/** A running server. */
export class PageServer {
  readonly #served: Served;
  readonly #token: string = makeToken();
  readonly #memory = new PieceMemory();
  readonly #versions = new OpenVersions();
  readonly #server: Server;
  readonly #connections: Connections;
  /** Paths as requests have them. Nothing is decoded, so nothing leads elsewhere. */
  readonly #files: ReadonlyMap<string, ServedFile>;
  /** Connections with an answer under way. */
  readonly #busy = new WeakSet<object>();
  #code: string | null = null;

  private constructor(served: Served) {
    this.#served = served;
    this.#files = new Map(
      served.sources.flatMap(({ files }, i) => files.map((file) => [`/${pathOf(i, file)}`, file])),
    );
    const options = {
      headersTimeout: REQUEST_MS,
      requestTimeout: REQUEST_MS,
      keepAliveTimeout: IDLE_MS,
      connectionsCheckingInterval: CHECK_MS,
    };
    this.#server = createServer(options, (request, response) => {
      void this.#answer(request, response);
    });
    this.#connections = new Connections(this.#server, MAX_CONNECTIONS);
    this.#server.timeout = STALLED_MS;
  }

  /**
   * Starts a server on a port of 127.0.0.1; 0 takes a free one.
   *
   * @throws Errors of the system, such as `EADDRINUSE` and `EACCES`
   */
  static async start(served: Served, port: number): Promise<PageServer> {
    const started = new PageServer(served);
    started.#server.listen(port, HOST);
    await once(started.#server, 'listening');
    return started;
  }

  /** The address of the page. The token is all that keeps others out: it is for this machine's user alone. */
  get address(): string {
    return `http://${HOST}:${this.#port}${PAGE_QUERY}${this.#token}#${this.#served.view ?? ''}`;
  }

  get #port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /**
   * An address that leads to the page once. It is for the command line of a browser, which other users of the machine
   * can see.
   */
  addressForOpening(): string {
    this.#code = makeToken();
    return `http://${HOST}:${this.#port}${OPEN_QUERY}${this.#code}`;
  }

  /** Ends all connections. */
  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
    await this.#versions.close();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { socket } = request;
    // A reader that asks on before it has its answer would have many files open.
    if (this.#busy.has(socket)) return void socket.destroy();
    this.#busy.add(socket);
    this.#connections.asked(socket);
    response.once('close', () => this.#busy.delete(socket));
    try {
      await this.#route(request, response);
    } catch (error) {
      if (response.headersSent) return void response.destroy();
      if (hasCode(error, NO_DESCRIPTORS)) refuse(response, 503, 'too many files are open');
      else refuse(response, 500, 'the file cannot be read');
    }
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const objection = objectionTo(request, this.#port);
    if (objection !== null) return refuse(response, objection.status, objection.reason);
    const { url = '' } = request;
    if (url.startsWith(OPEN_QUERY)) return this.#open(url.slice(OPEN_QUERY.length), response);
    const isPage = url.startsWith(PAGE_QUERY);
    const isAllowed = isPage
      ? isSecret(url.slice(PAGE_QUERY.length), this.#token)
      : hasToken(request, this.#token);
    if (!isAllowed) {
      const reason = 'the token is missing or wrong; open the address that the command printed';
      return refuse(response, 403, reason);
    }
    if (isPage) return this.#sendPage(response);
    if (url === LIST) return await this.#sendList(response);
    if (url.startsWith(RANGES_QUERY)) {
      return await this.#sendRanges(request, response, url.slice(RANGES_QUERY.length));
    }
    const file = this.#files.get(url);
    if (file === undefined) return refuse(response, 404, 'no such name');
    await this.#sendFile(request, response, file);
  }

  #open(code: string, response: ServerResponse): void {
    const isRight = this.#code !== null && isSecret(code, this.#code);
    if (!isRight) {
      refuse(response, 403, 'this address was used before');
      return;
    }
    this.#code = null;
    response.writeHead(303, { ...HEADERS, Location: this.address, 'Content-Length': 0 }).end();
  }

  #sendPage(response: ServerResponse): void {
    const { bytes, policy } = this.#served.page;
    sendWhole(response, bytes, 'text/html; charset=utf-8', policy);
  }

  async #sendList(response: ServerResponse): Promise<void> {
    const sources: unknown[] = [];
    for (const [i, { name, files }] of this.#served.sources.entries()) {
      const listed: unknown[] = [];
      for (const file of files) {
        const lease = await this.#versions.acquire(file);
        if (lease === null) continue;
        await lease.release();
        listed.push({ name: file.name, size: lease.version.byteLength, path: pathOf(i, file) });
      }
      sources.push({ name, files: listed });
    }
    const json = JSON.stringify({ version: 1, sources });
    sendWhole(response, Buffer.from(json), 'application/json', NO_PAGE);
  }

  async #sendRanges(
    { method }: IncomingMessage,
    response: ServerResponse,
    query: string,
  ): Promise<void> {
    const ranges = rangesOf(query, this.#files);
    if (ranges === null) return refuse(response, 404, 'no such name or range');
    response.writeHead(200, {
      ...HEADERS,
      'Content-Security-Policy': NO_PAGE,
      'Content-Type': 'application/octet-stream',
    });
    if (method === 'HEAD') response.end();
    else await sendRanges(response, ranges, this.#versions, this.#memory);
  }

  async #sendFile(
    { method = '', headers }: IncomingMessage,
    response: ServerResponse,
    named: ServedFile,
  ): Promise<void> {
    const lease = await this.#versions.acquire(named);
    if (lease === null) return refuse(response, 404, 'the file is gone');
    try {
      const file = lease.version;
      const { byteLength, tag } = file;
      const wanted = requestedBytes(method, headers, byteLength, tag);
      const { status } = wanted;
      const common = {
        ...HEADERS,
        'Content-Security-Policy': NO_PAGE,
        'Accept-Ranges': 'bytes',
        ETag: tag,
      };
      if (!('range' in wanted)) {
        const size = status === 416 ? { 'Content-Range': `bytes */${byteLength}` } : {};
        const none = status === 304 ? {} : { 'Content-Length': 0 };
        return void response.writeHead(status, { ...common, ...size, ...none }).end();
      }
      const { begin, end } = wanted.range;
      const part =
        status === 206 ? { 'Content-Range': `bytes ${begin}-${end - 1}/${byteLength}` } : {};
      response.writeHead(status, {
        ...common,
        ...part,
        'Content-Type': 'application/octet-stream',
        'Content-Length': end - begin,
      });
      if (method === 'HEAD') response.end();
      else await sendBytes(response, file, wanted.range, this.#memory);
    } finally {
      await lease.release();
    }
  }
}

function sendWhole(
  response: ServerResponse,
  bytes: Uint8Array,
  type: string,
  policy: string,
): void {
  response.writeHead(200, {
    ...HEADERS,
    'Content-Security-Policy': policy,
    'Content-Type': type,
    'Content-Length': bytes.byteLength,
  });
  response.end(bytes);
}

/** Answers that there is no answer, in words, and ends the connection. */
function refuse(response: ServerResponse, status: number, reason: string): void {
  response.writeHead(status, {
    ...HEADERS,
    'Content-Security-Policy': NO_PAGE,
    'Content-Type': 'text/plain; charset=utf-8',
    ...(status === 405 ? { Allow: METHODS.join(', ') } : {}),
    Connection: 'close',
  });
  response.end(`${reason}\n`);
}
