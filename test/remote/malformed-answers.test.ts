/** Servers that don't speak HTTP, or stop doing so: an error after the first wrong bytes, not after a stall. */
import { Buffer } from 'node:buffer';
import { createServer, type Server, type Socket } from 'node:net';
import process from 'node:process';
import { afterEach, describe, expect, it } from 'vitest';
import { SocketReceiver } from '../../src/remote/node/receiver.js';
import { resolveSource } from '../../src/remote/source.js';
import { Random } from '../support/random.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);

const FILE = Uint8Array.from({ length: 20_000 }, (_, i) => (i * 7) % 251);

/** First words of servers of other protocols. */
const BANNERS: readonly (string | Buffer)[] = [
  'SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n',
  '220 ftp.example FTP server ready\r\n',
  '-ERR unknown command\r\n',
  'ICY 200 OK\r\n\r\n',
  '<html>no head</html>',
  'HTTP 200 OK\r\n\r\n',
  Buffer.from([0x15, 3, 1, 0, 2, 2, 0x28]),
  Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0]),
];

const RANGE = 'Content-Range: bytes 2000-6999/20000\r\nETag: "x"\r\n';

/** Lines that end a head early: no field, or one that contradicts others. */
const LINES: readonly string[] = [
  'this is no field',
  'Content-Length: x',
  'Content-Length: 5000\r\nContent-Length: 5001',
  'A: \0',
  `A: ${'x'.repeat(70_000)}`,
];

/** The bytes of an answer that is not HTTP, after which the server waits. */
function malformedAnswer(random: Random): Buffer {
  const head = `HTTP/1.1 206 Partial Content\r\n${RANGE}`;
  const text = random.do<(string | Buffer)[]>(
    () => random.pick(BANNERS),
    () => Buffer.concat([Buffer.from([random.from(0, 64)]), random.bytes(random.below(300))]),
    () => `${head}${random.pick(LINES)}\r\n\r\n`,
    () => `${head}Transfer-Encoding: chunked\r\n\r\n${random.pick(['zz', '-5', '\r\n\r\n'])}\r\n`,
  );
  return Buffer.from(text as string);
}

const ends: (() => void)[] = [];

afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** A server that answers the first request well, and later ones with those bytes. Never ends a connection itself. */
async function serve(bytes: Buffer): Promise<{ url: string; requestCount: () => number }> {
  let count = 0;
  const sockets: Socket[] = [];
  const server: Server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', () => {
      if (++count > 1) return void socket.write(bytes);
      const range = 'Content-Range: bytes 0-999/20000\r\nETag: "x"\r\n';
      socket.write(`HTTP/1.1 206 x\r\nContent-Length: 1000\r\n${range}\r\n`);
      socket.write(FILE.subarray(0, 1000));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { url: `http://127.0.0.1:${Object(server.address()).port}/a`, requestCount: () => count };
}

describe.each([
  ['fetch', undefined],
  ['sockets', () => new SocketReceiver(1)],
])('by %s', (_, makeReceiver) => {
  it(`a malformed answer is an error after two tries, without a stall (seed ${SEED})`, async () => {
    for (let number = 0; number < 30; number++) {
      const bytes = malformedAnswer(new Random(SEED, number));
      const { url, requestCount } = await serve(bytes);
      const settings = {
        endpoint: 'https://huggingface.co',
        isOffline: false,
        readToken: () => undefined,
        makeReceiver,
      };
      const options = { startByteLength: 1000, firstDelayMs: 1 };
      const source = await resolveSource(url, options, settings, new AbortController().signal);
      await source.file.readStart(1000);
      const error = await source.file.readInto(new Uint8Array(5000), 2000).catch((e: unknown) => e);
      source.close();
      const about = `number ${number}: ${JSON.stringify(bytes.subarray(0, 200).toString('latin1'))}`;
      expect(error, about).toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE' });
      expect(String(error), about).toMatch(/found a malformed one.* \(.*, 2 times$/s);
      // Sockets leave it to fetch, which makes the error.
      expect(requestCount(), about).toBeLessThanOrEqual(4);
    }
  });
});
