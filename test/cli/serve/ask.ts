/** Sends requests to a server of the page, as browsers send them and as they do not. */
import { once } from 'node:events';
import { type Agent, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { buffer, text } from 'node:stream/consumers';
import type { Page } from '../../../src/cli/serve/page.js';
import type { PageServer } from '../../../src/cli/serve/server.js';

/** Stands for the page, which is not what these tests are about. */
export const PAGE: Page = {
  bytes: Buffer.from('<!doctype html><title>page</title>'),
  policy: "default-src 'none'",
};

/** Port and token of a server, by its address. */
export function partsOf({ address }: Pick<PageServer, 'address'>): { port: number; token: string } {
  const [, port, token = ''] =
    /^http:\/\/127\.0\.0\.1:(\d+)\/\?token=([\w-]{43})#$/.exec(address) ?? [];
  return { port: Number(port), token };
}

/** An answer, whole. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  /** The port of the connection, on the side of the client. */
  readonly localPort: number | undefined;
}

/** What is sent; undefined leaves a header out. */
export interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
  readonly body?: string;
  /** Whose connections are used; a new one by default. */
  readonly agent?: Agent;
}

/** Sends a request with the token, and takes the answer. */
export async function ask(
  server: Pick<PageServer, 'address'>,
  path: string,
  asked: Asked = {},
): Promise<Answer> {
  const { port, token } = partsOf(server);
  const { method = 'GET', body, agent = false } = asked;
  const given: Asked['headers'] = { 'x-safetensors-token': token, ...asked.headers };
  const headers: OutgoingHttpHeaders = {};
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined) headers[name] = value;
  }
  const sent = request({ host: '127.0.0.1', port, path, method, headers, agent });
  const answered = once(sent, 'response');
  sent.end(body);
  const [response] = await answered;
  const { statusCode: status, headers: head, socket } = response;
  const { localPort } = socket;
  return { status, headers: head, body: await buffer(response), localPort };
}

/** Opens a connection. What the server does to it is not an error here. */
export async function connectTo(server: Pick<PageServer, 'address'>): Promise<Socket> {
  const socket = connect(partsOf(server).port, '127.0.0.1');
  await once(socket, 'connect');
  return socket.on('error', () => {});
}

/** Sends text as it is, and takes what comes until the server ends the connection. */
export async function askRaw(server: PageServer, head: string): Promise<string> {
  const socket = await connectTo(server);
  socket.write(head);
  return await text(socket).catch(() => '');
}

/** The head of a GET with the token. */
export function headOf(
  server: Pick<PageServer, 'address'>,
  path: string,
  more: readonly string[] = [],
): string {
  const { port, token } = partsOf(server);
  const lines = [
    `GET ${path} HTTP/1.1`,
    `Host: 127.0.0.1:${port}`,
    `x-safetensors-token: ${token}`,
    ...more,
  ];
  return `${lines.join('\r\n')}\r\n\r\n`;
}
