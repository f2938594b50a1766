/** Which requests sockets of our own send, and which `fetch`. */
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { describe, expect, it, vi } from 'vitest';
import { resolveSource } from '../../../src/remote/source.js';
import { ask, BODY, begin, FILE, LENGTH, message, type Peer, serve } from './talking-server.js';

describe('fetch', () => {
  /** Reads the file's start by `fetch`, then a range. */
  async function readRange(
    { url }: Peer,
    options: { readonly proxy?: string; readonly fetch?: typeof fetch } = {},
    stallMs?: number,
    reads = 1,
  ): Promise<{ readonly asks: number; readonly target: Uint8Array }> {
    const receiver = begin();
    const asks = vi.spyOn(receiver, 'ask');
    const settings = {
      endpoint: 'https://huggingface.co',
      isOffline: false,
      readToken: () => undefined,
      proxyFor: () => options.proxy,
      makeReceiver: () => receiver,
    };
    const sending = { startByteLength: 10, fetch: options.fetch, firstDelayMs: 10, stallMs };
    const { file } = await resolveSource(url.href, sending, settings, new AbortController().signal);
    await file.readStart(10);
    const target = new Uint8Array(LENGTH);
    for (let i = 0; i < reads; i++) await file.readInto(target, 0);
    return { asks: asks.mock.calls.length, target };
  }

  /** Sends the range that the head asks for, up to some byte. */
  function sendRange(
    socket: Socket,
    head: string,
    end = Number.POSITIVE_INFINITY,
    more = '',
  ): void {
    const [, first, last] = /range: bytes=(\d+)-(\d+)/i.exec(head) ?? [];
    const bytes = FILE.subarray(Number(first), Number(last) + 1);
    const fields = `Content-Length: ${bytes.length}\r\nContent-Range: bytes ${first}-${last}/5000\r\n`;
    socket.write(message(`HTTP/1.1 206 x\r\n${fields}${more}`, bytes.subarray(0, end)));
  }

  it('makes the first request alone', async () => {
    const peer = await serve((socket, head) => sendRange(socket, head));
    const { asks, target } = await readRange(peer);
    expect(asks).toBe(1);
    expect(target).toEqual(BODY);
    expect(peer.heads.map((head) => /sec-fetch-mode/i.test(head))).toEqual([true, false]);
  });

  it('makes all further requests to a host whose answer was not plain', async () => {
    const peer = await serve((socket, head) =>
      sendRange(socket, head, undefined, 'X: 1\r\nX: 1\r\n'),
    );
    expect((await readRange(peer, {}, undefined, 3)).asks).toBe(1);
    const byFetch = peer.heads.filter((head) => /sec-fetch-mode/i.test(head));
    expect([peer.heads.length, byFetch.length]).toEqual([5, 4]);
  });

  it('makes every request where a proxy is named, or where it is not Node’s', async () => {
    const peer = await serve((socket, head) => sendRange(socket, head));
    expect((await readRange(peer, { proxy: 'HTTP_PROXY' })).asks).toBe(0);
    expect((await readRange(peer, { fetch: (...all) => fetch(...all) })).asks).toBe(0);
    const original = globalThis.fetch;
    try {
      globalThis.fetch = (...all) => original(...all);
      expect((await readRange(peer)).asks).toBe(0);
    } finally {
      globalThis.fetch = original;
    }
  });

  it('makes every request where a program has replaced what sends them', async () => {
    const peer = await serve((socket, head) => sendRange(socket, head));
    const receiver = begin();
    const key = [1, 2].map((n) => Symbol.for(`undici.globalDispatcher.${n}`));
    const holder = globalThis as unknown as Record<symbol, object & { dispatch(): void }>;
    await readRange(peer);
    expect(receiver.mayRequest()).toBe(true);
    const [name = Symbol()] = key.filter((one) => holder[one]?.constructor.name === 'Agent');
    const agent = holder[name] as object & { dispatch(): void };
    const Agent = agent.constructor as new (options?: object) => typeof agent;
    const composed = Object.create(agent, { dispatch: { value: () => {} } });
    try {
      for (const other of [new Agent({ connect: { ca: 'x' } }), composed]) {
        holder[name] = other;
        expect(receiver.mayRequest()).toBe(false);
      }
    } finally {
      holder[name] = agent;
    }
  });

  it('makes requests with headers about the connection', async () => {
    const peer = await serve();
    expect(await ask(begin(), peer, { headers: { Connection: 'close' } })).toBeNull();
    expect(peer.heads).toEqual([]);
  });

  it('goes on where a body has stalled or broken', async () => {
    for (const end of [(): void => {}, (socket: Socket): void => void socket.resetAndDestroy()]) {
      const peer = await serve((socket, head, count) => {
        sendRange(socket, head, count === 2 ? 700 : undefined);
        if (count === 2) setTimeout(() => end(socket), 50);
      });
      const { target } = await readRange(peer, {}, 300);
      expect(target).toEqual(BODY);
      expect(peer.heads[2]).toMatch(/range: bytes=700-1999/);
    }
  });
});

it('sends nothing to a server whose certificate nobody has signed', async () => {
  let byteLength = 0;
  const fixture = (name: string): Buffer =>
    readFileSync(new URL(`../../fixtures/self-signed/${name}`, import.meta.url));
  const server = createTlsServer({ key: fixture('key.pem'), cert: fixture('cert.pem') }, (socket) =>
    socket.on('data', (data) => {
      byteLength += data.length;
    }),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(`https://127.0.0.1:${Object(server.address()).port}/a`);
  const closed = new Promise((resolve) => {
    server.once('connection', (socket: Socket) => {
      socket.once('close', resolve);
    });
  });
  expect(await ask(begin(), { url }, { headers: { Authorization: 'Bearer x' } })).toBeNull();
  await closed;
  server.close();
  expect(byteLength).toBe(0);
});
