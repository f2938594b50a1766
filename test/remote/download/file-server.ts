/** A server of files with ETags, as object stores are, for tests. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ServedFile {
  readonly bytes: Uint8Array;
  readonly tag: string;
  readonly modified?: string;
}

export class FileServer {
  /** By name, with a query or without; they can be replaced at any time. */
  readonly files = new Map<string, ServedFile>();
  /** Requests that found a file. */
  requestCount = 0;
  /** Bytes of bodies that were sent. */
  sentByteLength = 0;
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const { pathname, search } = new URL(request.url ?? '/', 'http://localhost');
      const name = pathname.replace('/files/', '');
      const file = this.files.get(name + search) ?? this.files.get(name);
      if (file === undefined) return void response.writeHead(404).end();
      this.requestCount++;
      const { bytes, tag, modified } = file;
      const [, first = 0, last] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
      const begin = Number(first);
      const end = last ? Math.min(Number(last) + 1, bytes.length) : bytes.length;
      if (begin >= bytes.length && bytes.length > 0) {
        const headers = { ETag: tag, 'Content-Range': `bytes */${bytes.length}` };
        return void response.writeHead(416, headers).end();
      }
      response.writeHead(206, {
        ETag: tag,
        ...(modified === undefined ? {} : { 'Last-Modified': modified }),
        'Content-Range': `bytes ${begin}-${end - 1}/${bytes.length}`,
        'Content-Length': end - begin,
      });
      this.sentByteLength += end - begin;
      response.end(bytes.subarray(begin, end));
    });
  }

  static async start(): Promise<FileServer> {
    const server = new FileServer();
    await new Promise<void>((resolve) => server.#server.listen(0, '127.0.0.1', resolve));
    return server;
  }

  url(name: string): string {
    const { port } = this.#server.address() as AddressInfo;
    return `http://127.0.0.1:${port}/files/${name}`;
  }

  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    this.#server.closeAllConnections();
    await closed;
  }
}
