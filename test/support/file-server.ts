/** A server of files in memory that lets every page read them by ranges, as docs/cli.md asks, and counts requests. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** What pages of other origins may do and see. */
const CORS: Readonly<Record<string, string>> = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Headers': 'Range',
  'Access-Control-Expose-Headers': 'Content-Range, ETag, Content-Length',
};

/** Serves files until it is closed. */
export class FileServer {
  /** Every request: method, path and range. */
  readonly requests: string[] = [];
  readonly #files: Readonly<Record<string, Uint8Array>>;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #server: Server;

  private constructor(
    files: Readonly<Record<string, Uint8Array>>,
    headers: Readonly<Record<string, string>>,
  ) {
    this.#files = files;
    this.#headers = headers;
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  /** Starts it on a separate port. Files are by path, with a slash before. */
  static async start(
    files: Readonly<Record<string, Uint8Array>>,
    { isOpen = true } = {},
  ): Promise<FileServer> {
    const started = new FileServer(files, isOpen ? CORS : {});
    started.#server.listen(0, '127.0.0.1');
    await once(started.#server, 'listening');
    return started;
  }

  /** The address of a path. */
  at(path: string): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}${path}`;
  }

  #answer({ method, url = '/', headers }: IncomingMessage, response: ServerResponse): void {
    this.requests.push([method, url, headers.range].filter(Boolean).join(' '));
    const file = this.#files[url];
    if (file === undefined) return void response.writeHead(404, this.#headers).end();
    const common = { ...this.#headers, ETag: '"1"', 'Accept-Ranges': 'bytes' };
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    const begin = Number(first ?? 0);
    const end = Math.min(file.length, Number(last ?? file.length) + 1);
    const range = { 'Content-Range': `bytes ${begin}-${end - 1}/${file.length}` };
    response.writeHead(first === undefined ? 200 : 206, {
      ...common,
      ...(first === undefined ? {} : range),
      'Content-Type': url.endsWith('.html') ? 'text/html' : 'application/octet-stream',
      'Content-Length': end - begin,
    });
    response.end(file.subarray(begin, end));
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }
}
