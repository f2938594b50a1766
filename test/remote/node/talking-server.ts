/** A server that sends whatever a test wants, and requests to it for sockets that receive. */
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach } from 'vitest';
import { SocketReceiver } from '../../../src/remote/node/receiver.js';
import type { PlacedAnswer, Receiver } from '../../../src/remote/receiver.js';

/** The bytes of the file: those next to each other differ. */
export const FILE: Uint8Array<ArrayBuffer> = Uint8Array.from(
  { length: 5000 },
  (_, i) => (i * 7 + (i >> 8)) % 251,
);
/** Length of the range that is asked for, from the start of the file. */
export const LENGTH = 2000;
/** The head of a plain answer, without its empty line. */
export const HEAD = `HTTP/1.1 206 x\r\nContent-Length: ${LENGTH}\r\nContent-Range: bytes 0-1999/5000\r\n`;
export const BODY: Uint8Array<ArrayBuffer> = FILE.subarray(0, LENGTH);

/** A head with an empty line, and a body. */
export function message(head: string, body: Uint8Array | string = ''): Buffer {
  return Buffer.concat([Buffer.from(`${head}\r\n`), Buffer.from(body)]);
}

export const PLAIN: Buffer = message(HEAD, BODY);

/** The server's side. */
export interface Peer {
  readonly url: URL;
  readonly sockets: Socket[];
  /** The heads of all requests. */
  readonly heads: string[];
}

const ends: (() => void)[] = [];

afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A server that answers by the function, which gets the socket, the head of the request and its number. */
export async function serve(
  answer: (socket: Socket, head: string, count: number) => void = (socket) => socket.write(PLAIN),
): Promise<Peer> {
  const sockets: Socket[] = [];
  const heads: string[] = [];
  const server: Server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (data) => {
      heads.push(data.toString('latin1'));
      answer(socket, heads.at(-1) ?? '', heads.length);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const { port } = Object(server.address());
  return { url: new URL(`http://127.0.0.1:${port}/a?b=c`), sockets, heads };
}

/** A receiver for ranges of any length. */
export function begin(): SocketReceiver {
  const receiver = new SocketReceiver(1);
  ends.push(() => receiver.close());
  return receiver;
}

interface Asking {
  readonly headers?: Record<string, string>;
  readonly target?: Uint8Array<ArrayBuffer>;
  readonly signal?: AbortSignal;
}

/** Asks for the range. */
export function ask(
  receiver: Receiver,
  { url }: Pick<Peer, 'url'>,
  { headers, target = new Uint8Array(LENGTH), signal = new AbortController().signal }: Asking = {},
): Promise<PlacedAnswer | null> {
  const range = `bytes=0-${LENGTH - 1}`;
  return receiver.ask({ url, headers: new Headers({ ...headers, range }), target, signal });
}

/** Asks, and waits for the body. */
export async function receive(
  receiver: Receiver,
  peer: Peer,
  asking: Asking = {},
): Promise<number[]> {
  const pieces: number[] = [];
  const answer = await ask(receiver, peer, asking);
  await answer?.receive?.((byteLength) => pieces.push(byteLength));
  return pieces;
}
