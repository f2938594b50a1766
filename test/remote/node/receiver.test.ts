/** Bytes that sockets read into their place, from a server that sends whatever a test wants. */
import { Socket } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import {
  ask,
  BODY,
  begin,
  HEAD,
  LENGTH,
  message,
  PLAIN,
  receive,
  serve,
} from './talking-server.js';

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}

describe('a plain answer', () => {
  it('is in its place, however it is cut, and nothing beside it is touched', async () => {
    for (const step of [1, 7, 150, PLAIN.length]) {
      const peer = await serve(async (socket) => {
        for (let at = 0; at < PLAIN.length; at += step) {
          socket.write(PLAIN.subarray(at, at + step));
          if (at < 500) await new Promise(setImmediate);
        }
      });
      const memory = new Uint8Array(LENGTH + 200).fill(99);
      const pieces = await receive(begin(), peer, { target: memory.subarray(100, 100 + LENGTH) });
      expect(memory.subarray(100, 100 + LENGTH)).toEqual(BODY);
      expect([...memory.subarray(0, 100), ...memory.subarray(-100)]).toEqual(Array(200).fill(99));
      expect(sum(pieces)).toBe(LENGTH);
    }
  });

  it('is asked for by a request with the headers that were given, and a few of its own', async () => {
    const peer = await serve();
    await receive(begin(), peer, { headers: { 'X-Key': 'é', 'User-Agent': 'mine' } });
    const [first, ...lines] = (peer.heads[0] ?? '').trimEnd().split('\r\n');
    expect(first).toBe('GET /a?b=c HTTP/1.1');
    expect(lines.toSorted()).toEqual(
      [
        'accept: */*',
        'connection: keep-alive',
        `host: ${peer.url.host}`,
        'range: bytes=0-1999',
        'user-agent: mine',
        'x-key: é',
      ].toSorted(),
    );
  });

  it.each([
    ['in the same read', (socket: Socket) => void socket.write(Buffer.concat([PLAIN, BODY]))],
    [
      'later',
      (socket: Socket) => {
        socket.write(PLAIN);
        setTimeout(() => socket.write(BODY), 20);
      },
    ],
  ])('with more bytes behind it, %s, ends the connection, not the memory', async (_, answer) => {
    const peer = await serve(answer);
    const memory = new Uint8Array(LENGTH * 2);
    const receiver = begin();
    await receive(receiver, peer, { target: memory.subarray(0, LENGTH) });
    await expect.poll(() => peer.sockets[0]?.destroyed).toBe(true);
    expect(memory.subarray(LENGTH)).toEqual(new Uint8Array(LENGTH));
    await receive(receiver, peer, { target: memory.subarray(0, LENGTH) });
    expect(peer.sockets.length).toBe(2);
  });
});

describe('a connection', () => {
  it('is used again', async () => {
    const peer = await serve();
    const receiver = begin();
    for (let i = 0; i < 5; i++) await receive(receiver, peer);
    expect(peer.sockets.length).toBe(1);
    receiver.close();
    await expect.poll(() => peer.sockets[0]?.destroyed).toBe(true);
  });

  it.each(['Connection: close', 'Keep-Alive: timeout=1'])('is not kept with %s', async (field) => {
    const peer = await serve((socket) => socket.write(message(`${HEAD}${field}\r\n`, BODY)));
    const receiver = begin();
    await receive(receiver, peer);
    await receive(receiver, peer);
    expect(peer.sockets.length).toBe(2);
  });

  it.each([
    ['a second before the server would close it', 'Keep-Alive: timeout=3\r\n', 2000],
    ['after four seconds at most', 'Keep-Alive: timeout=60\r\n', 4000],
    ['after four seconds when the server names no time', '', 4000],
  ])('ends %s', async (_, field, idleMs) => {
    const peer = await serve((socket) => socket.write(message(HEAD + field, BODY)));
    const setTimeout = vi.spyOn(Socket.prototype, 'setTimeout');
    await receive(begin(), peer);
    const [limit] = setTimeout.mock.calls.at(-1) ?? [];
    const socket = setTimeout.mock.contexts.at(-1) as Socket;
    setTimeout.mockRestore();
    expect(limit).toBe(idleMs);
    expect(peer.sockets[0]?.destroyed).toBe(false);
    socket.emit('timeout');
    await expect.poll(() => peer.sockets[0]?.destroyed).toBe(true);
  });

  it('is kept with seven others at most', async () => {
    const peer = await serve();
    const receiver = begin();
    await Promise.all(Array.from({ length: 20 }, () => receive(receiver, peer)));
    const open = (): number => peer.sockets.filter(({ destroyed }) => !destroyed).length;
    await expect.poll(open).toBe(8);
  });

  it('that the server has closed meanwhile is replaced', async () => {
    const peer = await serve((socket, _, count) => {
      if (count === 2) socket.destroy();
      else socket.write(PLAIN);
    });
    const receiver = begin();
    await receive(receiver, peer);
    expect(sum(await receive(receiver, peer))).toBe(LENGTH);
    expect(peer.heads.length).toBe(3);
  });

  it('that is closed before its first answer is an error', async () => {
    const peer = await serve((socket) => socket.destroy());
    await expect(ask(begin(), peer)).rejects.toThrow(/closed|ECONNRESET/);
  });

  it('that ends in a body is an error behind the bytes that came', async () => {
    const peer = await serve((socket) => socket.end(PLAIN.subarray(0, -10)));
    const target = new Uint8Array(LENGTH);
    const answer = await ask(begin(), peer, { target });
    const pieces: number[] = [];
    const received = answer?.receive?.((byteLength) => pieces.push(byteLength));
    await expect(received).rejects.toThrow('other side closed');
    expect(sum(pieces)).toBe(LENGTH - 10);
    expect(target.subarray(0, -10)).toEqual(BODY.subarray(0, -10));
  });
});

describe('an answer that is not plain', () => {
  const length = `Content-Length: ${LENGTH}\r\n`;
  const range = 'Content-Range: bytes 0-1999/5000\r\n';

  it.each([
    ['of the whole file', message(`HTTP/1.1 200 OK\r\n${length}`, BODY)],
    ['in chunks', message(`HTTP/1.1 206 x\r\nTransfer-Encoding: chunked\r\n${range}`, '0\r\n\r\n')],
    ['without a length', message(`HTTP/1.1 206 x\r\n${range}`, BODY)],
    ['of HTTP/1.0', message(`HTTP/1.0 206 x\r\n${length}${range}`, BODY)],
    ['with hints before it', Buffer.concat([message('HTTP/1.1 103 x\r\n'), PLAIN])],
    ['in another protocol', Buffer.from('SSH-2.0-x\r\n\r\n')],
    ['with too long a head', Buffer.from(`${HEAD}A: ${'x'.repeat(2 ** 17)}`)],
  ])('%s is left to fetch', async (_, bytes) => {
    const peer = await serve((socket) => socket.write(bytes));
    expect(await ask(begin(), peer)).toBeNull();
    await expect.poll(() => peer.sockets[0]?.destroyed).toBe(true);
  });

  it.each([
    ['a refusal', 'HTTP/1.1 503 x\r\nRetry-After: 9\r\n', 503],
    ['a redirect', 'HTTP/1.1 302 x\r\nLocation: /b\r\n', 302],
    ['another length', `HTTP/1.1 206 x\r\nContent-Length: 9\r\n${range}`, 206],
    ['another range', `HTTP/1.1 206 x\r\n${length}Content-Range: bytes 1-2000/5000\r\n`, 206],
    ['compressed', `${HEAD}Content-Encoding: gzip\r\n`, 206],
  ])('since it is %s is handed on without its body', async (_, head, status) => {
    const peer = await serve((socket) => socket.write(message(head, BODY)));
    const target = new Uint8Array(LENGTH);
    const answer = await ask(begin(), peer, { target });
    expect(answer?.response.status).toBe(status);
    expect(answer?.receive).toBeUndefined();
    await expect.poll(() => peer.sockets[0]?.destroyed).toBe(true);
    expect(target).toEqual(new Uint8Array(LENGTH));
  });

  it('since nobody listens is left to fetch', async () => {
    expect(await ask(begin(), { url: new URL('http://127.0.0.1:1/') })).toBeNull();
  });
});

describe('an abort', () => {
  it.each([
    ['before the answer', 0],
    ['in the head', 20],
    ['in the body', PLAIN.length - 500],
  ])('%s ends the request and its connection', async (_, byteLength) => {
    const peer = await serve((socket) => socket.write(PLAIN.subarray(0, byteLength)));
    const controller = new AbortController();
    const received = receive(begin(), peer, controller);
    await expect.poll(() => peer.heads.length).toBe(1);
    controller.abort(new Error('enough'));
    await expect(received).rejects.toThrow('enough');
    await expect.poll(() => peer.sockets[0]?.destroyed).toBe(true);
  });

  it('before the request sends none', async () => {
    const peer = await serve();
    const signal = AbortSignal.abort(new Error('enough'));
    await expect(receive(begin(), peer, { signal })).rejects.toThrow('enough');
    expect(peer.heads).toEqual([]);
  });

  it('behind the last byte leaves the connection for others', async () => {
    const peer = await serve();
    const receiver = begin();
    const controller = new AbortController();
    await receive(receiver, peer, controller);
    controller.abort();
    await receive(receiver, peer);
    expect(peer.sockets.length).toBe(1);
  });
});
